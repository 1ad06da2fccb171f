#pragma once

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_future.hpp>
#include <future>
#include <holdfast/result.hpp>
#include <memory>
#include <stop_token>
#include <thread>

#include "os/process.hpp"

namespace holdfast::test {

/// An io_context that a thread runs, and a way to wait for what completes there.
class AsioThread {
 public:
  AsioThread();
  /// Waits until all pending operations have completed, unless it runs on that thread.
  ~AsioThread();
  AsioThread(const AsioThread&) = delete;
  AsioThread& operator=(const AsioThread&) = delete;

  [[nodiscard]] asio::io_context& context() noexcept { return *context_; }
  [[nodiscard]] asio::io_context::executor_type executor() noexcept { return context_->get_executor(); }
  [[nodiscard]] std::thread::id id() const noexcept { return thread_.get_id(); }
  /// False in a forked child, where the thread is not.
  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

  /// Begins an operation, `begin(token)`, and returns its result; throws its error. A stop request is a
  /// signal on its cancellation slot.
  template <class Begin>
  auto await(const std::stop_token& stop, Begin begin) {
    using T = decltype(begin(asio::use_future).get());
    // Not by a future's exception: two threads would share it by a count that ThreadSanitizer does not see,
    // because it is in the C++ library.
    const auto answered = std::make_shared<std::promise<Result<T>>>();
    auto answer = answered->get_future();
    auto handler = [answered](const std::exception_ptr& failed, T value) {
      if (!failed) return answered->set_value(std::move(value));
      try {
        std::rethrow_exception(failed);
      } catch (const Error& error) {
        answered->set_value(error);
      }
    };
    if (!stop.stop_possible()) {
      begin(std::move(handler));
      return answer.get().value_or_throw();
    }
    // A signal and its slot are not for two threads at once: both belong to the context's.
    const auto signal = std::make_shared<asio::cancellation_signal>();
    std::promise<void> begun;
    asio::post(*context_, [&] {
      begin(asio::bind_cancellation_slot(signal->slot(), std::move(handler)));
      begun.set_value();
    });
    begun.get_future().wait();
    const std::stop_callback on_stop(stop, [this, signal] {
      asio::post(*context_, [signal] { signal->emit(asio::cancellation_type::all); });
    });
    return answer.get().value_or_throw();
  }

 private:
  const os::ProcessIdentity process_;
  std::shared_ptr<asio::io_context> context_ = std::make_shared<asio::io_context>();
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_->get_executor()};
  std::thread thread_;
};

}  // namespace holdfast::test
