#include "rpc/held_locks.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "rpc/event.hpp"

namespace holdfast::cli::rpc {
namespace {

Json loss_of(const std::string& lock_id, const AsyncGuard& guard, LossReason reason) {
  const nlohmann::ordered_json loss{
      {"lockId", lock_id}, {"keyHash", key_hash(guard.key())}, {"reason", to_string(reason)}};
  return Json::unchecked(loss.dump());
}

}  // namespace

void HeldLocks::add(AsyncGuard guard, std::optional<ClaimedTaskName> claimed) {
  std::string lock_id(guard.id().str());
  auto held = std::make_shared<Held>();
  held->guard = std::move(guard);
  held->claimed = std::move(claimed);
  // Also completes, with Aborted, when the guard ends. Whoever holds on to a lock holds on to its client, and
  // so to this; if the lock is gone, this may be.
  held->guard.wait_lost(
      [this, lock_id, weak = std::weak_ptr(held)](const std::exception_ptr& ended, LossReason) {
        const auto lost = weak.lock();
        if (!ended && lost) tell_if_lost(lock_id, *lost);
      });
  held->subscribed = all_subscribed_;
  held_.emplace(std::move(lock_id), std::move(held));
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
  subscribe(found->first, *found->second);
  return true;
}

void HeldLocks::subscribe_to_all() {
  all_subscribed_ = true;
  for (auto& [lock_id, held] : held_) subscribe(lock_id, *held);
}

void HeldLocks::subscribe(const std::string& lock_id, Held& held) {
  held.subscribed = true;
  tell_if_lost(lock_id, held);
}

void HeldLocks::tell_if_lost(const std::string& lock_id, Held& held) {
  if (!held.subscribed || held.told || !held.guard) return;
  const auto reason = held.guard.loss_reason();
  if (!reason) return;
  held.told = true;
  tell_(loss_of(lock_id, held.guard, *reason));
}

asio::awaitable<void> HeldLocks::release_all() {
  const auto executor = co_await asio::this_coro::executor;
  // All at once: an engine that is slow with one is slow with all.
  std::vector<std::shared_ptr<Held>> all;
  all.reserve(held_.size());
  for (auto& [lock_id, held] : held_) all.push_back(std::move(held));
  held_.clear();
  auto left = std::make_shared<std::size_t>(all.size());
  Event released(executor);
  for (const auto& held : all) {
    held->guard.release([left, &released](const std::exception_ptr&, bool) {
      if (--*left == 0) released.notify();
    });
  }
  while (*left > 0) co_await released.wait();
}

}  // namespace holdfast::cli::rpc
