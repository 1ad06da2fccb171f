#include <holdfast/fenced_register.hpp>

#include "tasks/address.hpp"
#include "tasks/call.hpp"
#include "tasks/list_loop.hpp"
#include "tasks/refusals.hpp"
#include "tasks/register_place.hpp"

namespace holdfast {

using detail::owned;
using runtime::Flow;
using runtime::Op;
using tasks::run;
using tasks::start;
using Value = FencedRegister::Value;

namespace {

constexpr std::string_view register_owner = tasks::owner_of_registers;
constexpr std::size_t max_name_bytes = 512;

RecordKey key_of(std::string_view name) {
  if (name.empty() || name.size() > max_name_bytes) {
    throw Error(ErrorCode::InvalidArgument,
                "a register's name is 1 to " + std::to_string(max_name_bytes) + " bytes of UTF-8");
  }
  return RecordKey::of(register_owner, name).value_or_throw();
}

/// Stored as a JSON string, so that no text can be mistaken for a record with an expiry.
RecordData wrapped(std::string_view text) {
  return RecordData::parse(Json::string(text).value_or_throw().str()).value_or_throw();
}

Value value_of(const StoredRecord& stored) {
  const auto json = Json::parse(stored.data);
  auto text = json ? string_in(json->str()) : std::nullopt;
  if (!text || !stored.bound_to) {
    throw Error(ErrorCode::Internal,
                "the record under this register's name is not a valid register; it was not changed");
  }
  return {.text = *std::move(text), .version = stored.version, .written_by = *stored.bound_to};
}

/// InvalidArgument if the guard is empty.
Result<FencingToken> token_of(const Guard& guard) {
  try {
    return guard.token();
  } catch (const Error& error) {
    return error;
  }
}

std::string name_of(const RecordKey& key) {
  return "the register " + std::string(key.task());
}

/// Which register, and how to wait for it.
struct RegisterCall {
  Flow flow;
  std::shared_ptr<StorageBackend> storage;
  RecordKey key;
  std::stop_token stop;
};

Op<std::optional<Value>> get_value(RegisterCall call) {
  GetRecord request{.key = call.key};
  const auto stored = co_await call.flow.ask(call.storage, std::move(request), call.stop);
  if (!stored) co_return stored.error();
  if (!*stored) co_return std::nullopt;
  co_return value_of(**stored);
}

Op<std::uint64_t> put_value(RegisterCall call, std::string text, FencingToken token) {
  PutRecord request{
      .key = call.key, .data = wrapped(text), .fence = std::move(token), .fenced_may_create = true};
  const auto outcome = co_await call.flow.ask(call.storage, std::move(request), call.stop);
  if (!outcome) co_return outcome.error();
  tasks::throw_if_refused(*outcome, name_of(call.key));
  if (const auto* written = std::get_if<Written>(&*outcome)) co_return written->version;
  co_return Error(ErrorCode::Internal, name_of(call.key) + " was not written: the store gave no reason");
}

Op<std::optional<Value>> bind_value(RegisterCall call, FencingToken token) {
  BindRecord request{.key = call.key, .fence = std::move(token)};
  const auto outcome = co_await call.flow.ask(call.storage, std::move(request), call.stop);
  if (!outcome) co_return outcome.error();
  tasks::throw_if_refused(*outcome, name_of(call.key));
  if (const auto* stored = std::get_if<StoredRecord>(&*outcome)) co_return value_of(*stored);
  co_return std::nullopt;
}

Op<bool> rebind_value(RegisterCall call, FencingToken token) {
  RebindRecord request{.key = call.key, .fence = std::move(token)};
  const auto outcome = co_await call.flow.ask(call.storage, std::move(request), call.stop);
  if (!outcome) co_return outcome.error();
  co_return std::holds_alternative<StoredRecord>(*outcome);
}

Op<std::optional<Value>> rebind_value_from(RegisterCall call, std::string authority, FencingToken token) {
  RebindRecord request{.key = call.key, .fence = std::move(token), .from_authority = std::move(authority)};
  const auto outcome = co_await call.flow.ask(call.storage, std::move(request), call.stop);
  if (!outcome) co_return outcome.error();
  if (const auto* stored = std::get_if<StoredRecord>(&*outcome)) co_return value_of(*stored);
  co_return std::nullopt;
}

Op<RecordPage> register_records(Flow flow, std::shared_ptr<StorageBackend> storage, ListRecords what,
                                std::stop_token stop) {
  co_return co_await flow.ask(storage, std::move(what), stop);
}

Error unreadable_register(std::string_view name, const Error& why) {
  return Error(why.code(), "the register " + std::string(name) + " cannot be read: " + why.message(),
               why.cause())
      .about(std::string(name), {});
}

}  // namespace

FencedRegister::Place::Place(std::shared_ptr<StorageBackend> in, std::shared_ptr<runtime::Runtime> on,
                             std::string_view name)
    : storage(std::move(in)), threads(std::move(on)), key(key_of(name)) {}

FencedRegister::FencedRegister(std::shared_ptr<const Place> place) noexcept : place_(std::move(place)) {}

FencedRegister::FencedRegister(std::shared_ptr<StorageBackend> storage, std::string_view name)
    : FencedRegister(
          std::make_shared<const Place>(std::move(storage), std::make_shared<runtime::Runtime>(), name)) {}

std::optional<Value> FencedRegister::get(std::stop_token stop) const {
  return run(get_value({Flow::blocking(), place_->storage, place_->key, std::move(stop)}));
}
void FencedRegister::get(std::stop_token stop, Done<std::optional<Value>> done) const {
  start(*place_->threads,
        get_value({Flow::completing(place_->threads), place_->storage, place_->key, std::move(stop)}),
        std::move(done));
}

std::uint64_t FencedRegister::put(std::string_view text, const FencingTokenView& token,
                                  std::stop_token stop) const {
  return run(put_value({Flow::blocking(), place_->storage, place_->key, std::move(stop)}, std::string(text),
                       owned(token)));
}
void FencedRegister::put(std::string_view text, const FencingTokenView& token, std::stop_token stop,
                         Done<std::uint64_t> done) const {
  start(*place_->threads,
        put_value({Flow::completing(place_->threads), place_->storage, place_->key, std::move(stop)},
                  std::string(text), owned(token)),
        std::move(done));
}

std::uint64_t FencedRegister::put(std::string_view text, const Guard& guard, std::stop_token stop) const {
  return put(text, token_of(guard).value_or_throw(), std::move(stop));
}
void FencedRegister::put(std::string_view text, const Guard& guard, std::stop_token stop,
                         Done<std::uint64_t> done) const {
  const auto token = token_of(guard);
  if (!token) return done(token.error());
  put(text, *token, std::move(stop), std::move(done));
}

std::optional<Value> FencedRegister::bind(const FencingTokenView& token, std::stop_token stop) const {
  return run(bind_value({Flow::blocking(), place_->storage, place_->key, std::move(stop)}, owned(token)));
}
void FencedRegister::bind(const FencingTokenView& token, std::stop_token stop,
                          Done<std::optional<Value>> done) const {
  start(*place_->threads,
        bind_value({Flow::completing(place_->threads), place_->storage, place_->key, std::move(stop)},
                   owned(token)),
        std::move(done));
}

bool FencedRegister::rebind(const FencingTokenView& token, std::stop_token stop) const {
  return run(rebind_value({Flow::blocking(), place_->storage, place_->key, std::move(stop)}, owned(token)));
}
void FencedRegister::rebind(const FencingTokenView& token, std::stop_token stop, Done<bool> done) const {
  start(*place_->threads,
        rebind_value({Flow::completing(place_->threads), place_->storage, place_->key, std::move(stop)},
                     owned(token)),
        std::move(done));
}

std::optional<Value> FencedRegister::rebind_from(std::string_view authority, const FencingTokenView& token,
                                                 std::stop_token stop) const {
  return run(rebind_value_from({Flow::blocking(), place_->storage, place_->key, std::move(stop)},
                               std::string(authority), owned(token)));
}
void FencedRegister::rebind_from(std::string_view authority, const FencingTokenView& token,
                                 std::stop_token stop, Done<std::optional<Value>> done) const {
  start(*place_->threads,
        rebind_value_from({Flow::completing(place_->threads), place_->storage, place_->key, std::move(stop)},
                          std::string(authority), owned(token)),
        std::move(done));
}

FencedRegister::Page FencedRegister::list(const std::shared_ptr<StorageBackend>& storage,
                                          std::string_view cursor, std::size_t limit, std::stop_token stop) {
  ListRecords what{.prefix = std::string(register_owner) + ':', .limit = limit};
  if (!cursor.empty()) what.after = tasks::position_of(cursor, register_owner).value_or_throw();
  const auto records = run(register_records(Flow::blocking(), storage, std::move(what), std::move(stop)));
  Page page;
  for (const auto& listed : records.records) {
    const std::string name(listed.key.task());
    try {
      page.registers.push_back({.name = name, .value = value_of(listed.record)});
    } catch (const Error& error) {
      page.unreadable.push_back(unreadable_register(name, error));
    }
  }
  for (const auto& record : records.unreadable) {
    page.unreadable.push_back(unreadable_register(record.task, record.why));
  }
  if (records.next) page.cursor = tasks::cursor_at(*records.next, register_owner).value_or_throw();
  return page;
}

}  // namespace holdfast
