#pragma once

#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

namespace holdfast::test {

/// The way of a stop request to the cancellation slot of one operation's handler. Signals are not
/// thread-safe: everything here happens on the thread that runs the context, apart from what happens before
/// there can be an answer.
class StopToSlot : public std::enable_shared_from_this<StopToSlot> {
 public:
  explicit StopToSlot(asio::io_context& context) : context_(context) {}

  [[nodiscard]] asio::cancellation_slot slot() noexcept { return signal_.slot(); }
  void emit() { signal_.emit(asio::cancellation_type::all); }

  /// From now on a stop request is passed on.
  void listen(const std::stop_token& stop) {
    if (ended_) return;
    on_stop_.emplace(stop, [&context = context_, weak = weak_from_this()] {
      asio::post(context, [weak] {
        const auto self = weak.lock();
        if (self && !self->ended_) self->emit();
      });
    });
  }
  /// The handler was called.
  void end() {
    ended_ = true;
    on_stop_.reset();
  }

 private:
  asio::io_context& context_;
  asio::cancellation_signal signal_;
  bool ended_ = false;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace holdfast::test
