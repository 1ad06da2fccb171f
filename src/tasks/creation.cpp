#include "tasks/creation.hpp"

#include <algorithm>
#include <holdfast/duration.hpp>

#include "core/digest.hpp"
#include "core/utf8.hpp"
#include "core/uuid.hpp"
#include "os/random.hpp"
#include "tasks/address.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/json_forms.hpp"
#include "tasks/limits.hpp"

namespace holdfast::tasks {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t max_request_key_bytes = 512;
constexpr std::size_t max_method_bytes = 1024;

/// The id of a task with a request key is derived from that key. A repeated request finds the task by its id,
/// in the same step that would create it, and no second entry has to be kept in step with it.
Result<std::string> task_id(const std::string& owner, std::string_view request_key) {
  std::array<unsigned char, 16> bytes{};
  if (request_key.empty()) {
    os::random_bytes(bytes);
    return core::uuid_v4(bytes);
  }
  const auto digest = core::sha256("holdfast request\n" + std::to_string(owner.size()) + "\n" + owner +
                                   std::string(request_key));
  if (!digest) return digest.error();
  std::copy_n(digest->begin(), bytes.size(), bytes.begin());
  return core::uuid_v8(bytes);
}

/// Equal for equal requests, whatever the order of their variables; different for different ones.
Result<std::string> digest_of(const NewTask& task, milliseconds ttl, milliseconds poll_interval,
                              const Members& variables) {
  const auto request = "{\"method\":" + json_string(task.method) +
                       ",\"pollInterval\":" + std::to_string(poll_interval.count()) +
                       ",\"ttl\":" + std::to_string(ttl.count()) +
                       ",\"variables\":" + canonical(variables.text()) + '}';
  const auto digest = core::sha256(request);
  if (!digest) return digest.error();
  return core::base64url(*digest);
}

Result<milliseconds> checked_ttl(const NewTask& task, const TaskOptions& options) {
  const auto ttl = task.ttl.value_or(options.default_ttl);
  if (ttl < milliseconds(1)) {
    return Error(ErrorCode::InvalidArgument, "the ttl of a task must be at least 1 ms");
  }
  if (ttl > options.max_ttl) {
    return Error(ErrorCode::TtlTooLong, "a ttl of " + duration_text(ttl) + " exceeds the maximum of " +
                                            duration_text(options.max_ttl) +
                                            "; use a shorter ttl, or raise the limit");
  }
  return ttl;
}

Status check_texts(const NewTask& task) {
  if (!core::is_utf8(task.method) || task.method.size() > max_method_bytes) {
    return Error(ErrorCode::InvalidArgument,
                 "a task's method is at most " + std::to_string(max_method_bytes) + " bytes of UTF-8");
  }
  if (!core::is_utf8(task.request_key) || task.request_key.size() > max_request_key_bytes) {
    return Error(ErrorCode::InvalidArgument,
                 "a request key is at most " + std::to_string(max_request_key_bytes) + " bytes of UTF-8");
  }
  return Ok{};
}

Result<Members> first_variables(const NewTask& task, const TaskOptions& options) {
  if (task.variables.is_null()) return Members();
  auto variables = checked_variables(Json(task.variables), options);
  if (!variables) return variables.error();
  Members kept;
  kept.merge(*variables);  // null deletes a variable, so a new task has none that is null
  if (auto checked = check_size(kept, options); !checked) return checked.error();
  return kept;
}

}  // namespace

Result<Creation> Creation::prepare(const std::string& owner, const NewTask& task, const TaskOptions& options,
                                   WallTime now) {
  if (auto checked = check_texts(task); !checked) return checked.error();
  const auto ttl = checked_ttl(task, options);
  if (!ttl) return ttl.error();
  const auto poll_interval = task.poll_interval.value_or(options.poll_interval);
  if (poll_interval < milliseconds(0)) {
    return Error(ErrorCode::InvalidArgument, "the poll interval must not be negative");
  }
  auto variables = first_variables(task, options);
  if (!variables) return variables.error();
  auto id = task_id(owner, task.request_key);
  if (!id) return id.error();
  auto key = RecordKey::of(stored_owner(owner), *id);
  if (!key) return key.error();
  std::string origin;
  if (!task.request_key.empty()) {
    auto digest = digest_of(task, *ttl, poll_interval, *variables);
    if (!digest) return digest.error();
    origin = *std::move(digest);
  }
  const auto record = TaskRecord::begin({.id = *std::move(id),
                                         .owner = owner,
                                         .method = std::string(task.method),
                                         .now = now,
                                         .ttl = *ttl,
                                         .poll_interval = poll_interval,
                                         .variables = *std::move(variables)});
  return Creation(*std::move(key), record.task(0, {}, {}), std::move(origin), options.max_tasks_per_owner,
                  std::string(task.request_key));
}

Result<CreateRecord> Creation::request(std::optional<FencingToken> fence) const {
  auto data = record_data(task_);
  if (!data) return data.error();
  return CreateRecord{.key = key_,
                      .data = *std::move(data),
                      .quota = quota_ == 0 ? std::nullopt : std::optional(quota_),
                      .origin = origin_,
                      .fence = std::move(fence)};
}

Result<Task> Creation::result(const CreateOutcome& outcome, const std::optional<FencingToken>& fence) const {
  if (const auto* written = std::get_if<Written>(&outcome)) {
    auto task = task_;
    task.version = written->version;
    task.incarnation = written->incarnation;
    task.bound_to = fence;
    return task;
  }
  if (const auto* full = std::get_if<QuotaReached>(&outcome)) {
    return Error(ErrorCode::QuotaExceeded,
                 "this owner has " + std::to_string(full->records) + " tasks, finished ones included, and " +
                     std::to_string(quota_) +
                     " are allowed; remove some, wait until they expire, or raise the limit");
  }
  const auto& there = std::get<AlreadyThere>(outcome).record;
  if (request_key_.empty() || there.origin != origin_) {
    return Error(ErrorCode::RequestKeyConflict, "another task was already created under the request key " +
                                                    request_key_ + "; use a new key for a new request");
  }
  const auto existing = record_of(there, key_.task(), task_.owner);
  if (!existing) return existing.error();
  return existing->task(there.version, there.incarnation, there.bound_to);
}

}  // namespace holdfast::tasks
