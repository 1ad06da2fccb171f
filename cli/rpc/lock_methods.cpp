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
std::string lock_id_of(const Params& params) {
  return std::string(LockId::parse(params.text("lockId")).value_or_throw().str());
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
  auto guard = session.held().take(lock_id);
  bool released = false;
  if (guard) {
    released = co_await guard.release();
  } else {
    released = co_await session.service().locks().release(lock_id);
  }
  const ordered_json result{{"ok", released}};
  co_return to_result(result);
}

asio::awaitable<Json> extend(Call call) {
  auto& session = *call.session;
  const auto lock_id = lock_id_of(call.params);
  const auto ttl = call.params.milliseconds("ttlMs");
  std::optional<std::int64_t> expires;
  if (const auto guard = session.held().find(lock_id)) {
    const bool extended = co_await guard->extend(ttl);
    // Released meanwhile: then there is nothing left that could be told.
    if (extended && *guard) expires = guard->expires_at_ms();
  } else {
    expires = co_await session.service().locks().extend(lock_id, ttl);
  }
  ordered_json result{{"ok", expires.has_value()}};
  if (expires) result["expiresAtMs"] = *expires;
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
    info = co_await locks.get_by_id(lock_id);
  }
  co_return info ? to_result(to_json(*info)) : Json();
}

asio::awaitable<Json> subscribe(Call call) {
  auto& held = call.session->held();
  bool known = true;
  if (call.params.has("lockId")) {
    known = held.subscribe(lock_id_of(call.params));
  } else {
    held.subscribe_to_all();
  }
  const ordered_json result{{"ok", known}};
  co_return to_result(result);
}

constexpr std::array acquire_parameters{Parameter{"key", Kind::text}, Parameter{"ttlMs", Kind::milliseconds}};
constexpr std::array lock_parameters{Parameter{"key", Kind::text},
                                     Parameter{"ttlMs", Kind::milliseconds, Need::optional},
                                     Parameter{"waitMs", Kind::milliseconds, Need::optional},
                                     Parameter{"retries", Kind::count, Need::optional},
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
