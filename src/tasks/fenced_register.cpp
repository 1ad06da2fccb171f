#include <holdfast/fenced_register.hpp>
#include <nlohmann/json.hpp>

#include "tasks/refusals.hpp"
#include "tasks/store.hpp"

namespace holdfast {
namespace {

/// No owner of tasks is stored under this name: one that contains %25 has no other % (see stored_owner).
constexpr std::string_view register_owner = "%register%25";
constexpr std::size_t max_name_bytes = 512;

RecordKey key_of(std::string_view name) {
  if (name.empty() || name.size() > max_name_bytes) {
    throw Error(ErrorCode::InvalidArgument,
                "a register's name is 1 to " + std::to_string(max_name_bytes) + " bytes of UTF-8");
  }
  return RecordKey::of(register_owner, name).value_or_throw();
}

/// As a JSON string: so no text can be taken for a record with an expiry.
RecordData wrapped(std::string_view text) {
  return RecordData::parse(Json::string(text).value_or_throw().str()).value_or_throw();
}

FencedRegister::Value value_of(const StoredRecord& stored) {
  const auto text = nlohmann::json::parse(stored.data, nullptr, false);
  if (!text.is_string() || !stored.guarded_by) {
    throw Error(ErrorCode::Internal, "what is stored under this register's name is none; it is left alone");
  }
  return {.text = text.get<std::string>(), .version = stored.version, .written_by = *stored.guarded_by};
}

}  // namespace

FencedRegister::FencedRegister(std::shared_ptr<StorageBackend> storage, std::string_view name)
    : storage_(std::move(storage)), key_(key_of(name)) {}

std::optional<FencedRegister::Value> FencedRegister::get(std::stop_token stop) const {
  const auto stored = tasks::get(*storage_, {.key = key_}, std::move(stop)).value_or_throw();
  return stored ? std::optional(value_of(*stored)) : std::nullopt;
}

std::uint64_t FencedRegister::put(std::string_view text, const FencingToken& token, std::stop_token stop) {
  PutRecord request{.key = key_, .data = wrapped(text), .fence = token, .fenced_may_create = true};
  const auto outcome = tasks::put(*storage_, std::move(request), std::move(stop)).value_or_throw();
  const auto what = "the register " + std::string(key_.task());
  tasks::throw_if_refused(outcome, what);
  const auto* written = std::get_if<Written>(&outcome);
  if (written == nullptr) throw Error(ErrorCode::Internal, what + " was not written, for no reason given");
  return written->version;
}

std::uint64_t FencedRegister::put(std::string_view text, const Guard& guard, std::stop_token stop) {
  return put(text, {.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()},
             std::move(stop));
}

std::optional<FencedRegister::Value> FencedRegister::guard(const FencingToken& token, std::stop_token stop) {
  const auto outcome =
      tasks::guard(*storage_, {.key = key_, .fence = token}, std::move(stop)).value_or_throw();
  const auto what = "the register " + std::string(key_.task());
  tasks::throw_if_refused(outcome, what);
  const auto* stored = std::get_if<StoredRecord>(&outcome);
  return stored != nullptr ? std::optional(value_of(*stored)) : std::nullopt;
}

bool FencedRegister::rebind(const FencingToken& token, std::stop_token stop) {
  const auto outcome =
      tasks::rebind(*storage_, {.key = key_, .fence = token}, std::move(stop)).value_or_throw();
  return std::holds_alternative<StoredRecord>(outcome);
}

}  // namespace holdfast
