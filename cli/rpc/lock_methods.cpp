#include <array>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "rpc/failure.hpp"
#include "rpc/in_flight.hpp"
#include "rpc/limits.hpp"
#include "rpc/lock_results.hpp"
#include "rpc/method.hpp"
#include "rpc/session.hpp"

namespace holdfast::cli::rpc {
namespace {

using nlohmann::ordered_json;

Json to_result(const ordered_json& object) {
  return Json::unchecked(object.dump());
}

/// The lock id, checked before anything is asked of it.
LockId lock_id_of(const Params& params) {
  return LockId::parse(params.text("lockId")).value_or_throw();
}

/// As SyncGuard says it: a lock of another id is not found either.
std::string_view reason_of(Absence absence) {
  return absence == Absence::expired ? "expired" : "not-found";
}
std::string_view reason_of(std::optional<LossReason> lost) {
  return lost == LossReason::unproven ? "expired" : "not-found";
}

Json not_held(std::string_view reason) {
  const ordered_json result{{"ok", false}, {"reason", reason}};
  return to_result(result);
}

asio::awaitable<Json> acquire(Call call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto& locks = call.session->service().locks();
  LockOptions options;
  options.ttl = call.params.milliseconds("ttlMs");
  options.wait = std::chrono::milliseconds::zero();
  const auto key = call.params.text("key");
  std::optional<DetachedLock> lock;
  try {
    lock = co_await locks.acquire(key, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
  }
  if (!lock) {
    const ordered_json locked{{"ok", false}, {"reason", "locked"}};
    co_return to_result(locked);
  }
  // Until somebody learns the id, nobody else could release it.
  call.request->lock_id = lock->id.str();
  co_return granted(call.request->lock_id, lock->fence, lock->expires_at_ms);
}

asio::awaitable<Json> wait_for_lock(Call call) {
  auto& session = *call.session;
  check_room_for_lock(session.held());
  const auto options = lock_options(call.params);
  const auto key = call.params.text("key");
  auto guard = co_await session.service().locks().lock(key, options);
  auto result = granted(std::string(guard.id().str()), guard.fence(), guard.expires_at_ms());
  session.held().add(std::move(guard));
  co_return result;
}

asio::awaitable<Json> release(Call call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto& session = *call.session;
  const auto lock_id = lock_id_of(call.params);
  if (auto guard = session.held().take(lock_id.str())) {
    const auto lost = guard.loss_reason();
    const bool released = co_await guard.release();
    if (!released) co_return not_held(reason_of(lost));
  } else {
    const auto outcome = co_await session.service().release(lock_id);
    if (!std::holds_alternative<Released>(outcome)) co_return not_held(reason_of(std::get<Absence>(outcome)));
  }
  const ordered_json result{{"ok", true}};
  co_return to_result(result);
}

asio::awaitable<Json> extend(Call call) {
  auto& session = *call.session;
  const auto lock_id = lock_id_of(call.params);
  const auto ttl = Ttl::of(call.params.milliseconds("ttlMs")).value_or_throw();
  std::int64_t expires_at_ms = 0;
  if (const auto guard = session.held().find(lock_id.str())) {
    const bool extended = co_await guard->extend(ttl.length());
    // Released meanwhile: then there is nothing left that could be told.
    if (!extended || !*guard) co_return not_held(reason_of(guard->loss_reason()));
    expires_at_ms = guard->expires_at_ms();
  } else {
    const auto outcome = co_await session.service().extend(lock_id, ttl);
    if (const auto* absence = std::get_if<Absence>(&outcome)) co_return not_held(reason_of(*absence));
    expires_at_ms = std::get<Extended>(outcome).expires_at_ms;
  }
  const ordered_json result{{"ok", true}, {"expiresAtMs", expires_at_ms}};
  co_return to_result(result);
}

asio::awaitable<Json> is_locked(Call call) {
  const auto key = call.params.text("key");
  const bool locked = co_await call.session->service().locks().is_locked(key);
  co_return Json::unchecked(locked ? "true" : "false");
}

asio::awaitable<Json> lookup(Call call) {
  auto& locks = call.session->service().locks();
  if (call.params.has("key") == call.params.has("lockId")) {
    throw bad_params("give either key or lockId");
  }
  std::optional<LockInfo> info;
  if (call.params.has("key")) {
    const auto key = call.params.text("key");
    info = co_await locks.get_by_key(key);
  } else {
    const auto lock_id = lock_id_of(call.params);
    info = co_await locks.get_by_id(lock_id.str());
  }
  co_return info ? to_result(to_json(*info)) : Json();
}

asio::awaitable<Json> subscribe(Call call) {
  auto& held = call.session->held();
  bool known = true;
  if (call.params.has("lockId")) {
    known = held.subscribe(lock_id_of(call.params).str());
  } else {
    held.subscribe_to_all();
  }
  const ordered_json result{{"ok", known}};
  co_return to_result(result);
}

constexpr std::array acquire_parameters{Parameter{"key", Kind::text}, Parameter{"ttlMs", Kind::milliseconds}};
constexpr std::array lock_parameters{
    Parameter{"key", Kind::text}, Parameter{"ttlMs", Kind::milliseconds, Need::optional},
    Parameter{"waitMs", Kind::wait, Need::optional}, Parameter{"retries", Kind::count, Need::optional},
    Parameter{"maxHoldMs", Kind::milliseconds, Need::optional}};
constexpr std::array id_parameter{Parameter{"lockId", Kind::text}};
constexpr std::array extend_parameters{Parameter{"lockId", Kind::text},
                                       Parameter{"ttlMs", Kind::milliseconds}};
constexpr std::array key_parameter{Parameter{"key", Kind::text}};
constexpr std::array lookup_parameters{Parameter{"key", Kind::text, Need::optional},
                                       Parameter{"lockId", Kind::text, Need::optional}};
constexpr std::array subscribe_parameters{Parameter{"lockId", Kind::text, Need::optional}};

constexpr std::array all_lock_methods{
    Method{"lock.acquire", acquire_parameters, acquire, Pace::prompt, Answer::needed},
    Method{"lock.lock", lock_parameters, wait_for_lock, Pace::waits, Answer::needed},
    Method{"lock.release", id_parameter, release},
    Method{"lock.extend", extend_parameters, extend},
    Method{"lock.isLocked", key_parameter, is_locked},
    Method{"lock.lookup", lookup_parameters, lookup},
    Method{"lock.subscribe", subscribe_parameters, subscribe},
};

}  // namespace

std::span<const Method> lock_methods() {
  return all_lock_methods;
}

}  // namespace holdfast::cli::rpc
