#include "rpc/session/held_locks.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "rpc/json/records.hpp"
#include "rpc/json/text.hpp"
#include "rpc/session/event.hpp"
#include "rpc/session/limits.hpp"

namespace holdfast::rpc {
namespace {

nlohmann::ordered_json params_of(const std::string& lock_id, const AsyncGuard& guard) {
  return {{"lockId", lock_id}, {"keyHash", key_hash(guard.key())}};
}

}  // namespace

void HeldLocks::check_room() const {
  if (held_.size() < max_held) return;
  throw Error(ErrorCode::RateLimited,
              "this connection holds " + std::to_string(held_.size()) + " locks, the maximum; release some");
}

void HeldLocks::add(AsyncGuard guard, std::optional<ClaimedTask> claimed) {
  std::string lock_id(guard.id().str());
  auto held = std::make_shared<Held>();
  held->guard = std::move(guard);
  held->claimed = std::move(claimed);
  // Also completes, with Aborted, when the guard ends; then this object may be gone. While `held` lives, so
  // does this object.
  held->guard.wait_lost(
      [this, lock_id, weak = std::weak_ptr(held)](const std::exception_ptr& ended, LossReason) {
        const auto lost = weak.lock();
        if (!ended && lost) report(lock_id, *lost);
      });
  const auto place = held_.emplace(std::move(lock_id), std::move(held)).first;
  if (all_subscribed_) listen(place->first, place->second);
}

void HeldLocks::listen(const std::string& lock_id, const std::shared_ptr<Held>& held) {
  if (std::exchange(held->subscribed, true) || !held->guard) return;
  held->guard.on_at_risk([this, lock_id, weak = std::weak_ptr(held)](bool) {
    if (const auto risky = weak.lock()) report(lock_id, *risky);
  });
}

std::shared_ptr<AsyncGuard> HeldLocks::find(std::string_view lock_id) const {
  const auto found = held_.find(lock_id);
  return found == held_.end() ? nullptr : std::shared_ptr<AsyncGuard>(found->second, &found->second->guard);
}

std::string HeldLocks::incarnation(std::string_view lock_id, std::string_view owner,
                                   std::string_view task_id) const {
  const auto found = held_.find(lock_id);
  if (found == held_.end() || !found->second->claimed) return {};
  const auto& claimed = *found->second->claimed;
  return claimed.owner == owner && claimed.id == task_id ? claimed.incarnation : std::string();
}

AsyncGuard HeldLocks::take(std::string_view lock_id) {
  const auto found = held_.find(lock_id);
  if (found == held_.end()) return {};
  auto guard = std::move(found->second->guard);
  held_.erase(found);
  return guard;
}

bool HeldLocks::subscribe(std::string_view lock_id) {
  const auto found = held_.find(lock_id);
  if (found == held_.end()) return false;
  listen(found->first, found->second);
  report(found->first, *found->second);
  return true;
}

void HeldLocks::subscribe_to_all() {
  all_subscribed_ = true;
  for (const auto& [lock_id, held] : held_) {
    listen(lock_id, held);
    report(lock_id, *held);
  }
}

void HeldLocks::report(const std::string& lock_id, Held& held) {
  const auto& guard = held.guard;
  if (!held.subscribed || held.loss_is_reported || !guard) return;
  if (const auto reason = guard.loss_reason()) {
    held.loss_is_reported = true;
    auto params = params_of(lock_id, guard);
    params["reason"] = to_string(*reason);
    params["remainingMs"] = whole_milliseconds(guard.remaining());
    notify_("lock.lost", dump(params));
  } else if (const bool at_risk = guard.at_risk(); at_risk != held.reported_at_risk) {
    held.reported_at_risk = at_risk;
    auto params = params_of(lock_id, guard);
    params["atRisk"] = at_risk;
    params["remainingMs"] = whole_milliseconds(guard.remaining());
    notify_("lock.atRisk", dump(params));
  }
}

asio::awaitable<void> HeldLocks::release_all() {
  const auto executor = co_await asio::this_coro::executor;
  const auto all = std::exchange(held_, {});
  Countdown released(executor, all.size());
  for (const auto& [lock_id, held] : all) {
    held->guard.release([&released](const std::exception_ptr&, bool) { released.complete_one(); });
  }
  co_await released.wait();
}

}  // namespace holdfast::rpc
