#pragma once

#include <functional>
#include <memory>

namespace holdfast::locks {

/// Which calls of an on_at_risk callback are due: one at a time, in order, none for changes that were undone
/// before. All functions are called under the mutex of the owner, which passes the present state.
class RiskReports {
 public:
  using Callback = std::function<void(bool)>;

  /// Exchanges the callback for this one. The old one is to be destroyed without the mutex.
  void swap(std::shared_ptr<Callback>& callback) noexcept {
    reported_ = false;
    callback_.swap(callback);
  }
  /// Returns true if a thread is to be started that makes the calls of `next` until it returns null.
  [[nodiscard]] bool begin(bool at_risk) noexcept {
    if (is_calling_ || !callback_ || at_risk == reported_) return false;
    return is_calling_ = true;
  }
  /// Returns the callback to be called with `at_risk`, or null. `ended`: there are no calls any more.
  [[nodiscard]] std::shared_ptr<Callback> next(bool at_risk, bool ended) noexcept {
    is_calling_ = !ended && callback_ && at_risk != reported_;
    if (!is_calling_) return nullptr;
    reported_ = at_risk;
    return callback_;
  }

 private:
  std::shared_ptr<Callback> callback_;
  bool reported_ = false;    ///< the state that the callback knows
  bool is_calling_ = false;  ///< a thread makes the calls
};

}  // namespace holdfast::locks
