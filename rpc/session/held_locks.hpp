#pragma once

#include <asio/awaitable.hpp>
#include <functional>
#include <holdfast/asio.hpp>
#include <holdfast/json.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::rpc {

/// The locks that are renewed for one client, and released when it goes.
class HeldLocks {
 public:
  using Notify = std::function<void(std::string_view method, const Json& params)>;

  /// `notify` sends `lock.lost` and `lock.atRisk`.
  explicit HeldLocks(Notify notify) : notify_(std::move(notify)) {}

  /// A task, and which one of those that have had its id.
  struct ClaimedTask {
    std::string owner;
    std::string id;
    std::string incarnation;
  };
  /// Throws Error(RateLimited) if the client holds as many locks as it may.
  void check_room() const;
  /// `claimed`: the task that the lock was acquired for.
  void add(AsyncGuard guard, std::optional<ClaimedTask> claimed = {});
  /// Null if this client does not hold it. The guard stays valid while the pointer is kept, though perhaps
  /// empty.
  [[nodiscard]] std::shared_ptr<AsyncGuard> find(std::string_view lock_id) const;
  /// The incarnation of that task if this lock was acquired for it, else empty.
  [[nodiscard]] std::string incarnation(std::string_view lock_id, std::string_view owner,
                                        std::string_view task_id) const;
  /// Removes the lock and returns its guard, to be released; an empty one if this client does not hold it.
  [[nodiscard]] AsyncGuard take(std::string_view lock_id);

  /// Reports the loss of this lock once, and before that when it is at risk and no longer; now if it already
  /// is. False if this client does not hold it.
  bool subscribe(std::string_view lock_id);
  /// The same for all locks, present and future.
  void subscribe_to_all();

  /// Releases all at once: an engine that is slow with one is slow with all. A lock that cannot be released
  /// expires.
  [[nodiscard]] asio::awaitable<void> release_all();

 private:
  struct Held {
    AsyncGuard guard;
    std::optional<ClaimedTask> claimed = {};
    bool subscribed = false;
    bool loss_is_reported = false;
    bool reported_at_risk = false;  ///< the state that the client knows
  };
  /// Reports from now on: in the order of the answers, because its id is sent with one of them.
  void listen(const std::string& lock_id, const std::shared_ptr<Held>& held);
  /// Sends what the client does not know yet.
  void report(const std::string& lock_id, Held& held);

  Notify notify_;
  std::map<std::string, std::shared_ptr<Held>, std::less<>> held_;
  bool all_subscribed_ = false;
};

}  // namespace holdfast::rpc
