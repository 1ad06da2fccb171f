#pragma once

#include <asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <holdfast/asio.hpp>
#include <holdfast/json.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::cli::rpc {

/// The locks of one client that are renewed for it, and end with it.
class HeldLocks {
 public:
  using Tell = std::function<void(const Json& loss)>;

  /// `tell` gets the parameters of a `lock.lost` notification.
  explicit HeldLocks(Tell tell) : tell_(std::move(tell)) {}

  /// A task, and which one of those that have had its id.
  struct ClaimedTaskName {
    std::string owner;
    std::string id;
    std::string incarnation;
  };
  /// `claimed`: the task that the lock was taken for.
  void add(AsyncGuard guard, std::optional<ClaimedTaskName> claimed = {});
  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }
  /// Null if it is none of them. May be kept while it is used: then it stays valid, though perhaps empty.
  [[nodiscard]] std::shared_ptr<AsyncGuard> find(std::string_view lock_id) const;
  /// Of that task, if this lock was taken for it; else empty.
  [[nodiscard]] std::string incarnation(std::string_view lock_id, std::string_view owner,
                                        std::string_view task_id) const;
  /// The guard, to be released; an empty one if it is none of them.
  [[nodiscard]] AsyncGuard take(std::string_view lock_id);

  /// Tells of the loss of this lock, once, now if it is lost already. False if it is none of them.
  bool subscribe(std::string_view lock_id);
  /// The same for all there are and all that come.
  void subscribe_to_all();

  /// All at once. What cannot be released ends with its lease.
  [[nodiscard]] asio::awaitable<void> release_all();

 private:
  struct Held {
    AsyncGuard guard;
    std::optional<ClaimedTaskName> claimed = {};
    bool subscribed = false;
    bool told = false;
  };
  void subscribe(const std::string& lock_id, Held& held);
  void tell_if_lost(const std::string& lock_id, Held& held);

  Tell tell_;
  std::map<std::string, std::shared_ptr<Held>, std::less<>> held_;
  bool all_subscribed_ = false;
};

}  // namespace holdfast::cli::rpc
