#include <algorithm>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/methods/methods.hpp"
#include "rpc/protocol/message.hpp"

namespace holdfast::rpc {

using nlohmann::ordered_json;

Json ok(bool done) {
  return Json::unchecked(done ? R"({"ok":true})" : R"({"ok":false})");
}

Json granted(std::string_view lock_id, Fence fence, WallTime expires_at,
             std::optional<std::uint32_t> replicas) {
  // By hand, as the answer that is asked for most: neither text has anything to escape.
  std::string text = R"({"ok":true,"lockId":")";
  text.append(lock_id).append(R"(","fence":")").append(fence.to_string());
  text.append(R"(","expiresAtMs":)").append(std::to_string(expires_at.time_since_epoch().count()));
  if (replicas) text.append(R"(,"replicas":)").append(std::to_string(*replicas));
  text.append("}");
  return Json::unchecked(std::move(text));
}

Json proven(std::chrono::nanoseconds remaining) {
  const auto whole = std::chrono::floor<std::chrono::milliseconds>(remaining).count();
  return Json::unchecked(R"({"ok":true,"remainingMs":)" + std::to_string(whole) + "}");
}

LockOptions lock_options(const Params& params) {
  LockOptions options;
  options.ttl = params.milliseconds_if("ttlMs").value_or(options.ttl);
  options.wait = params.milliseconds_if("waitMs");
  if (const auto retries = params.count_if("retries")) {
    options.retries = static_cast<std::uint32_t>(std::min<std::uint64_t>(*retries, no_retry_limit));
  }
  options.max_hold = params.milliseconds_if("maxHoldMs").value_or(options.max_hold);
  options.notice = params.milliseconds_if("noticeMs");
  return options;
}

std::string holder_of(const MethodCall& call) {
  return call.params.text_if("holder").value_or(call.session->holder());
}

namespace lock_methods {
namespace {

LockId lock_id_of(const Params& params) {
  return LockId::parse(params.text("lockId")).value_or_throw();
}

/// SyncGuard's words: a lock of another id is not found either.
std::string_view reason_of(Absence absence) {
  return absence == Absence::expired ? "expired" : "not-found";
}
/// Of a guard's lock that the store does not have.
std::string_view reason_of(std::optional<LossReason> lost, bool was_proven) {
  return lost == LossReason::unproven && !was_proven ? "expired" : "not-found";
}

Json refusal(std::string_view reason, const std::string& holder = {}) {
  ordered_json object{{"ok", false}, {"reason", reason}};
  if (!holder.empty()) object["holder"] = holder;
  return dump(object);
}

}  // namespace

asio::awaitable<Json> acquire(MethodCall call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  LockOptions options;
  options.ttl = call.params.milliseconds("ttlMs");
  options.wait = std::chrono::milliseconds::zero();
  const auto label = holder_of(call);
  options.holder = label;
  const auto key = call.params.text("key");
  std::optional<Lease> lock;
  std::string holder;
  try {
    lock = co_await call.session->service().acquire(key, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
    holder = error.holder();
  }
  if (!lock) co_return refusal("locked", holder);
  // The session releases the lock if its id does not reach the client: nothing else could.
  call.request->grants.locks.emplace_back(lock->id.str());
  co_return granted(lock->id.str(), lock->fence, lock->expires_at, lock->replicas);
}

asio::awaitable<Json> wait_for_lock(MethodCall call) {
  auto& session = *call.session;
  session.held().check_room();
  auto options = lock_options(call.params);
  const auto label = holder_of(call);
  options.holder = label;
  const auto key = call.params.text("key");
  auto guard = co_await session.service().locks().lock(key, options);
  auto result = granted(std::string(guard.id().str()), guard.fence(), guard.expires_at(), guard.replicas());
  session.held().add(std::move(guard));
  co_return result;
}

asio::awaitable<Json> release(MethodCall call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto& session = *call.session;
  const auto lock_id = lock_id_of(call.params);
  if (auto guard = session.held().take(lock_id.str())) {
    const auto lost = guard.loss_reason();
    const bool was_proven = guard.still_held();
    const bool released = co_await guard.release();
    if (!released) co_return refusal(reason_of(lost, was_proven));
  } else {
    const auto outcome = co_await session.service().release(lock_id);
    if (!std::holds_alternative<Released>(outcome)) co_return refusal(reason_of(std::get<Absence>(outcome)));
  }
  co_return ok(true);
}

asio::awaitable<Json> extend(MethodCall call) {
  auto& session = *call.session;
  const auto lock_id = lock_id_of(call.params);
  const auto ttl = Ttl::of(call.params.milliseconds("ttlMs")).value_or_throw();
  WallTime expires_at;
  if (const auto guard = session.held().find(lock_id.str())) {
    const bool extended = co_await guard->extend(ttl.length());
    // It may have been released meanwhile: then the guard is empty and has no expiry.
    if (!extended || !*guard) {
      const bool is_proven = guard->still_held();
      co_return refusal(is_proven ? "lost" : reason_of(guard->loss_reason(), is_proven));
    }
    expires_at = guard->expires_at();
  } else {
    const auto outcome = co_await session.service().extend(lock_id, ttl);
    if (const auto* absence = std::get_if<Absence>(&outcome)) co_return refusal(reason_of(*absence));
    expires_at = std::get<Extended>(outcome).expires_at;
  }
  const ordered_json result{{"ok", true}, {"expiresAtMs", expires_at.time_since_epoch().count()}};
  co_return dump(result);
}

asio::awaitable<Json> is_locked(MethodCall call) {
  const auto key = call.params.text("key");
  const bool locked = co_await call.session->service().locks().is_locked(key);
  co_return Json::unchecked(locked ? "true" : "false");
}

asio::awaitable<Json> lookup(MethodCall call) {
  auto& locks = call.session->service().locks();
  if (call.params.has("key") == call.params.has("lockId")) {
    throw bad_params("pass either key or lockId");
  }
  std::optional<LockInfo> info;
  if (call.params.has("key")) {
    const auto key = call.params.text("key");
    info = co_await locks.get_by_key(key);
  } else {
    const auto lock_id = lock_id_of(call.params);
    info = co_await locks.get_by_id(lock_id.str());
  }
  co_return info ? dump(to_json(*info)) : Json();
}

asio::awaitable<Json> subscribe(MethodCall call) {
  auto& held = call.session->held();
  bool known = true;
  if (call.params.has("lockId")) {
    known = held.subscribe(lock_id_of(call.params).str());
  } else {
    held.subscribe_to_all();
  }
  co_return ok(known);
}

asio::awaitable<Json> remaining(MethodCall call) {
  const auto guard = call.session->held().find(lock_id_of(call.params).str());
  co_return guard && *guard ? proven(guard->remaining()) : ok(false);
}

}  // namespace lock_methods
}  // namespace holdfast::rpc
