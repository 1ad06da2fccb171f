#pragma once

#include <atomic>
#include <coroutine>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "runtime/flow.hpp"

namespace holdfast::queue {

/// Waits on several watches at once: until one is woken, until `at`, or until a stop request. The result is
/// which were woken. All waits have ended when it returns.
class FirstWoken {
 public:
  FirstWoken(const runtime::Flow& flow, const std::vector<std::unique_ptr<Watch>>& watches, BootTime at,
             std::stop_token stop)
      : flow_(flow), watches_(watches), at_(at), outer_(std::move(stop)), woken_(watches.size(), 0) {}
  FirstWoken(const FirstWoken&) = delete;
  FirstWoken& operator=(const FirstWoken&) = delete;

  [[nodiscard]] bool await_ready() {
    if (!flow_.blocks()) return false;
    begin([this] { finished_.finish(); });
    finished_.wait();
    return true;
  }
  void await_suspend(std::coroutine_handle<> operation) {
    begin([operation] { operation.resume(); });
  }
  [[nodiscard]] std::vector<char> await_resume() noexcept { return std::move(woken_); }

 private:
  /// Calls `end` once, when every wait has ended.
  template <class End>
  void begin(End end) {
    // One more than there are waits: no wait ends the whole before all have begun.
    left_.store(watches_.size() + 1);
    on_stop_.emplace(outer_, Stop{this});
    // The frame may be gone when the last wait has ended: what the loop uses is kept here.
    const auto* watches = &watches_;
    const auto token = first_.get_token();
    const auto count = watches->size();
    const auto at = at_;
    for (std::size_t i = 0; i < count; ++i) {
      (*watches)[i]->wait(at, at, token, [this, i, end](const Result<bool>& woken) {
        woken_[i] = woken && *woken ? 1 : 0;
        // An engine that cannot wake it fails at once: that must not end the wait of the others.
        auto first = first_;
        if (woken) first.request_stop();
        one_ended(end);
      });
    }
    one_ended(end);
  }
  template <class End>
  void one_ended(const End& end) {
    if (left_.fetch_sub(1) != 1) return;
    on_stop_.reset();
    const auto call = end;  // it may destroy this object
    call();
  }

  struct Stop {
    FirstWoken* wait;
    void operator()() const {
      auto first = wait->first_;  // the last wait that it ends may destroy the object
      first.request_stop();
    }
  };

  const runtime::Flow& flow_;
  const std::vector<std::unique_ptr<Watch>>& watches_;
  const BootTime at_;
  const std::stop_token outer_;
  std::vector<char> woken_;
  std::stop_source first_;
  std::optional<std::stop_callback<Stop>> on_stop_;
  std::atomic<std::size_t> left_ = 0;
  Completion finished_;
};

}  // namespace holdfast::queue
