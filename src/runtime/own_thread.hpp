#pragma once

#include <atomic>
#include <holdfast/done.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>

#include "os/thread.hpp"
#include "runtime/op.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {

/// An operation that blocks and belongs to no engine yet (it opens one), on a thread of its own.
template <class T>
class OwnThread {
 public:
  /// Completes `done` with the operation's result on that thread; with Aborted as soon as `stop` is
  /// triggered, on the thread that triggers it. The operation then goes on, and its result is destroyed.
  /// Nothing waits for the thread, not even the end of the program.
  static void start(Op<T> operation, std::stop_token stop, Done<T> done) {
    const auto self = std::make_shared<OwnThread>(std::move(operation), std::move(done));
    self->on_stop_.emplace(std::move(stop), OnStop{self.get()});
    if (self->completed_) return;
    try {
      os::start_thread([self] { self->run(); }).detach();
    } catch (const std::system_error& error) {
      self->complete(
          Error(ErrorCode::ServiceUnavailable, "cannot start a thread to open the store on", error.what())
              .with(Effect::none));
    }
  }

  OwnThread(Op<T> operation, Done<T> done) : operation_(std::move(operation)), done_(std::move(done)) {}
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

 private:
  struct OnStop {
    OwnThread* self;  ///< waits for this in its destructor
    void operator()() const {
      self->complete(Error(ErrorCode::Aborted, "opening the store was cancelled").with(Effect::none));
    }
  };

  void run() {
    const LibraryThread mark;  // what is destroyed here must not wait for threads
    complete(Op<T>::run(std::move(operation_)));
  }
  void complete(Result<T> result) {
    if (!completed_.exchange(true)) done_(std::move(result));
  }

  Op<T> operation_;
  Done<T> done_;
  std::atomic<bool> completed_ = false;
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

}  // namespace holdfast::runtime
