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
constexpr std::size_t max_requester_bytes = 512;
constexpr std::int32_t max_priority = 1000;
constexpr std::uint32_t max_attempts = 1'000'000;
constexpr std::size_t max_limit_key_bytes = 256;
constexpr std::uint32_t max_limit = 1'000'000;

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

Status check_texts(std::string_view method, std::string_view request_key) {
  if (!core::is_utf8(method) || method.size() > max_method_bytes) {
    return Error(ErrorCode::InvalidArgument,
                 "a task's method is at most " + std::to_string(max_method_bytes) + " bytes of UTF-8");
  }
  if (!core::is_utf8(request_key) || request_key.size() > max_request_key_bytes) {
    return Error(ErrorCode::InvalidArgument,
                 "a request key is at most " + std::to_string(max_request_key_bytes) + " bytes of UTF-8");
  }
  return Ok{};
}

Result<Members> first_variables(JsonView given, const TaskOptions& options) {
  if (given.is_null()) return Members();
  auto variables = checked_variables(Json(given), options);
  if (!variables) return variables.error();
  variables->erase_nulls();  // null deletes a variable, so a new task has none that is null
  if (auto checked = check_size(*variables, options); !checked) return checked.error();
  return variables;
}

/// A worker passes it to its command as an environment variable. That ends at a NUL byte, and what follows
/// would be variables of the requester's choice.
Status check_requester(std::string_view requester) {
  if (!core::is_utf8(requester) || requester.size() > max_requester_bytes ||
      requester.find('\0') != std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument, "a requester is at most " + std::to_string(max_requester_bytes) +
                                                 " bytes of UTF-8 without NUL bytes");
  }
  return Ok{};
}

Status check_terms(const NewQueueTask& task) {
  const auto invalid = [](const std::string& why) { return Error(ErrorCode::InvalidArgument, why); };
  if (auto checked = check_requester(task.requester); !checked) return checked.error();
  if (task.priority < -max_priority || task.priority > max_priority) {
    return invalid("a priority is between -1000 and 1000");
  }
  if (task.max_attempts < 1 || task.max_attempts > max_attempts) {
    return invalid("a task of a queue has 1 to 1,000,000 attempts");
  }
  if (!core::is_utf8(task.limit_key) || task.limit_key.size() > max_limit_key_bytes) {
    return invalid("a limit key is at most " + std::to_string(max_limit_key_bytes) + " bytes of UTF-8");
  }
  if (task.limit < 1 || task.limit > max_limit) {
    return invalid("the limit of a limit key is 1 to 1,000,000");
  }
  const auto longest = std::chrono::duration_cast<milliseconds>(std::chrono::years(100));
  for (const auto length : {task.delay, task.attempt_limit, task.retention, task.failed_retention}) {
    if (length < milliseconds(0) || length > longest) {
      return invalid(
          "the delay, the time limit and the retention of a task are not negative, and at most "
          "100 years");
    }
  }
  if (task.max_age < milliseconds(1) || task.max_age > longest) {
    return invalid("the greatest age of a task is 1 ms to 100 years");
  }
  return Ok{};
}

Result<std::string> digest_of(const NewQueueTask& task, const Members& variables) {
  const auto digest = core::sha256(
      "{\"attemptLimit\":" + std::to_string(task.attempt_limit.count()) +
      ",\"delay\":" + std::to_string(task.delay.count()) + ",\"failedRetention\":" +
      std::to_string(task.failed_retention.count()) + ",\"limit\":" + std::to_string(task.limit) +
      ",\"limitKey\":" + json_string(task.limit_key) + ",\"maxAge\":" + std::to_string(task.max_age.count()) +
      ",\"maxAttempts\":" + std::to_string(task.max_attempts) + ",\"method\":" + json_string(task.method) +
      ",\"priority\":" + std::to_string(task.priority) + ",\"requester\":" + json_string(task.requester) +
      ",\"retention\":" + std::to_string(task.retention.count()) +
      ",\"variables\":" + canonical(variables.text()) + '}');
  if (!digest) return digest.error();
  return core::base64url(*digest);
}

}  // namespace

Result<Creation> Creation::prepare(const std::string& owner, const NewQueueTask& task,
                                   const TaskOptions& options, WallTime now) {
  if (auto checked = check_texts(task.method, task.request_key); !checked) return checked.error();
  if (auto checked = check_terms(task); !checked) return checked.error();
  auto variables = first_variables(task.variables, options);
  if (!variables) return variables.error();
  auto id = task_id(owner, task.request_key);
  if (!id) return id.error();
  auto key = RecordKey::of(owner, *id);
  if (!key) return key.error();
  std::string origin;
  if (!task.request_key.empty()) {
    auto digest = digest_of(task, *variables);
    if (!digest) return digest.error();
    origin = *std::move(digest);
  }
  Members meta;
  if (!task.requester.empty()) meta.set(meta_requester, json_string(task.requester));
  const auto record = TaskRecord::begin({.id = *std::move(id),
                                         .owner = owner,
                                         .method = std::string(task.method),
                                         .now = now,
                                         .ttl = std::nullopt,
                                         .poll_interval = options.poll_interval,
                                         .variables = *std::move(variables),
                                         .meta = std::move(meta)});
  QueueTerms terms{
      .priority = task.priority,
      .not_before = task.delay > milliseconds(0) ? std::optional(now + task.delay) : std::nullopt,
      .max_attempts = task.max_attempts,
      .max_age = task.max_age,
      .attempt_limit = task.attempt_limit,
      .retention = task.retention,
      .failed_retention = task.failed_retention,
      .limit_key = std::string(task.limit_key),
      .limit = task.limit};
  return Creation(*std::move(key), record.task({}), std::move(origin), options.max_tasks_per_owner,
                  std::string(task.request_key), std::move(terms));
}

Result<Creation> Creation::prepare_retry(const Task& failed, const TaskOptions& options, WallTime now) {
  // Other software may have stored it.
  if (auto checked = check_requester(failed.requester); !checked) return checked.error();
  const auto digest =
      core::sha256("holdfast retry\n" + failed.owner + "\n" + failed.id + "\n" + failed.incarnation);
  if (!digest) return digest.error();
  std::array<unsigned char, 16> bytes{};
  std::copy_n(digest->begin(), bytes.size(), bytes.begin());
  auto id = core::uuid_v8(bytes);
  auto key = RecordKey::of(failed.owner, id);
  if (!key) return key.error();
  Members meta;
  if (!failed.requester.empty()) meta.set(meta_requester, json_string(failed.requester));
  meta.set(meta_retry_of, json_string(failed.id));
  const auto record =
      TaskRecord::begin({.id = std::move(id),
                         .owner = failed.owner,
                         .method = failed.request_method,
                         .now = now,
                         .ttl = std::nullopt,
                         .poll_interval = failed.poll_interval.value_or(options.poll_interval),
                         .variables = Members::of(failed.variables),
                         .meta = std::move(meta)});
  auto terms = failed.queue ? failed.queue->terms : QueueTerms{};
  terms.not_before.reset();
  // The new task outlives the old one. So as long as the old one can be retried, a second retry finds the
  // first.
  if (failed.expires_at) {
    const auto left = std::chrono::ceil<milliseconds>(*failed.expires_at - now);
    terms.retention = std::max(terms.retention, left);
    terms.failed_retention = std::max(terms.failed_retention, left);
  }
  return Creation(*std::move(key), record.task({}), core::base64url(*digest), options.max_tasks_per_owner,
                  "of the retried task", std::move(terms));
}

Result<Creation> Creation::prepare(const std::string& owner, const NewTask& task, const TaskOptions& options,
                                   WallTime now) {
  if (auto checked = check_texts(task.method, task.request_key); !checked) return checked.error();
  const auto ttl = checked_ttl(task, options);
  if (!ttl) return ttl.error();
  const auto poll_interval = task.poll_interval.value_or(options.poll_interval);
  if (poll_interval < milliseconds(0)) {
    return Error(ErrorCode::InvalidArgument, "the poll interval must not be negative");
  }
  auto variables = first_variables(task.variables, options);
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
  return Creation(*std::move(key), record.task({}), std::move(origin), options.max_tasks_per_owner,
                  std::string(task.request_key));
}

Result<CreateRecord> Creation::request(std::optional<FencingToken> fence) const {
  auto data = record_data(task_);
  if (!data) return data.error();
  return CreateRecord{.key = key_,
                      .data = *std::move(data),
                      .quota = quota_ == 0 ? std::nullopt : std::optional(quota_),
                      .origin = origin_,
                      .fence = std::move(fence),
                      .queue = queue_};
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
                 std::string(queue_ ? "this queue has " : "this owner has ") + std::to_string(full->records) +
                     " tasks, finished ones included, and " + std::to_string(quota_) +
                     " are allowed; remove some, wait until they expire, or raise the limit");
  }
  const auto& there = std::get<AlreadyThere>(outcome).record;
  if (request_key_.empty() || there.origin != origin_) {
    return Error(ErrorCode::RequestKeyConflict, "another task was already created under the request key " +
                                                    request_key_ + "; use a new key for a new request");
  }
  const auto existing = record_of(there, key_.task(), task_.owner);
  if (!existing) return existing.error();
  return existing->task(there);
}

}  // namespace holdfast::tasks
