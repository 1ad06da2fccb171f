#pragma once

#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>

namespace holdfast::runtime {

/// `co_await` on it resumes the operation when the first of its tokens is triggered, on the thread that
/// triggers it; at once if one is already.
template <std::size_t count>
class FirstStop {
 public:
  template <class... Tokens>
  explicit FirstStop(Tokens... tokens) : tokens_{std::move(tokens)...} {}
  FirstStop(const FirstStop&) = delete;
  FirstStop& operator=(const FirstStop&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> operation) {
    operation_ = operation;
    for (std::size_t i = 0; i < count; ++i) callbacks_[i].emplace(std::move(tokens_[i]), Wake{this});
    // The second to come here resumes: this thread, because a token is triggered already, or that token's.
    return !one_of_two_.exchange(true, std::memory_order_acq_rel);
  }
  void await_resume() const noexcept {}

 private:
  struct Wake {
    FirstStop* wait;
    void operator()() const {
      if (wait->triggered_.exchange(true, std::memory_order_acq_rel)) return;
      if (wait->one_of_two_.exchange(true, std::memory_order_acq_rel)) wait->operation_.resume();
    }
  };

  std::array<std::stop_token, count> tokens_;
  std::coroutine_handle<> operation_;
  std::atomic<bool> triggered_ = false;
  std::atomic<bool> one_of_two_ = false;
  std::array<std::optional<std::stop_callback<Wake>>, count> callbacks_;
};
template <class... Tokens>
FirstStop(Tokens...) -> FirstStop<sizeof...(Tokens)>;

}  // namespace holdfast::runtime
