#pragma once

#include <algorithm>
#include <coroutine>
#include <holdfast/change_feed.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "os/clock.hpp"
#include "runtime/await.hpp"
#include "runtime/callers_context.hpp"
#include "runtime/op.hpp"
#include "runtime/runtime.hpp"
#include "runtime/turn.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::runtime {

[[nodiscard]] inline bool blocks(const LockBackend& backend) noexcept {
  return backend.capabilities().blocks;
}
[[nodiscard]] inline bool blocks(const StorageBackend& backend) noexcept {
  return backend.blocks();
}

/// Whether even an engine that blocks answers this request without I/O.
template <class Request>
inline constexpr bool never_blocks = requires { Request::never_blocks; };

/// How an operation waits for its steps: the only difference between the blocking and the asynchronous API.
///
/// Blocking: each step waits on the thread that runs the operation (which may do the engine's I/O meanwhile),
/// so the operation never suspends. Completing: no thread waits; a step suspends the operation, which resumes
/// on the thread that ends the step: of the engine's I/O, or of a pool. So between two steps it must neither
/// block nor run user code.
class Flow {
 public:
  static Flow blocking() noexcept { return {nullptr, {}}; }
  /// `context`: the caller's, for steps that other threads begin.
  static Flow completing(std::shared_ptr<Runtime> runtime, CallersContext context = {}) noexcept {
    return {std::move(runtime), std::move(context)};
  }
  [[nodiscard]] bool blocks() const noexcept { return runtime_ == nullptr; }

  /// Submits one operation of a contract and returns its Result. The request's deadline and `stop` also apply
  /// while it waits for a thread to begin on. The request must live until it is submitted: then it is moved
  /// or copied.
  template <class Backend, class Request>
  [[nodiscard]] auto ask(const std::shared_ptr<Backend>& backend, Request&& request,
                         std::stop_token stop) const {
    return Ask<Backend, Request&&>{*this, backend, std::forward<Request>(request), std::move(stop)};
  }

  /// Returns the result of Watch::wait. A null watch sleeps until `look_again_at`.
  [[nodiscard]] auto wait(Watch* watch, BootTime look_again_at, BootTime deadline,
                          std::stop_token stop) const {
    return Wait(*this, watch, look_again_at, deadline, std::move(stop));
  }
  [[nodiscard]] auto sleep_until(BootTime at, std::stop_token stop) const {
    return wait(nullptr, at, at, std::move(stop));
  }

  /// Returns the Result of ChangeFeed::wait. Never earlier than the deadline for a feed that cannot wait.
  [[nodiscard]] auto listen(ChangeFeed& feed, BootTime deadline, std::stop_token stop) const {
    return Listen{*this, feed, deadline, std::move(stop)};
  }

  /// Resumes on a thread for user code; a blocking flow is on one already.
  [[nodiscard]] auto leave_io_thread() const { return Hop{*this}; }

 private:
  Flow(std::shared_ptr<Runtime> runtime, CallersContext context) noexcept
      : runtime_(std::move(runtime)), context_(std::move(context)) {}

  /// A completion inside `begin` is deferred until after it: the resumed operation may end, and destroy
  /// objects that `begin` still uses.
  template <class Begin>
  static void defer_completions(Begin&& begin) {
    if (detail::Trampoline::busy()) return begin();
    const detail::Trampoline::Scope scope;
    begin();
  }

  template <class Backend, class Request>
  struct Ask {
    using Outcome = typename std::remove_cvref_t<Request>::Outcome;
    const Flow& flow;
    const std::shared_ptr<Backend>& backend;
    Request request;  ///< a reference
    std::stop_token stop;
    Slot<Outcome> slot = {};

    [[nodiscard]] bool await_ready() {
      if (!flow.blocks()) return false;
      await_into(slot, *backend, std::forward<Request>(request), std::move(stop));
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      auto end = [this, operation](Result<Outcome> answer) {
        slot.result.emplace(std::move(answer));
        operation.resume();
      };
      const BootTime deadline = request.deadline;
      // The answer may come, and the operation end, on another thread before `submit` returns. So everything
      // that `submit` uses is kept outside the operation's frame.
      auto work = [keep = backend, context = flow.context_, this, end] {
        std::remove_cvref_t<Request> sent = std::forward<Request>(request);
        auto stopped = stop;
        defer_completions([&] {
          const CarriedContext carried(context);
          keep->submit(std::move(sent), std::move(stopped), Done<Outcome>(end));
        });
      };
      constexpr auto limited = WorkerPool::Priority::limited;
      // In a forked child there is no pool; the engine returns the error.
      if (never_blocks<std::remove_cvref_t<Request>> || !runtime::blocks(*backend) ||
          flow.runtime_->blocking.runs_here(limited) || !flow.runtime_->in_own_process()) {
        return work();
      }
      // Kept alive here, because the operation may be the pool's last owner.
      const auto threads = flow.runtime_;
      if (threads->blocking.try_post(work, limited)) return;
      Turn::wait(threads, deadline, stop, std::move(work), [end](Error why) {
        Done<Outcome> done(end);
        done(std::move(why));
      });
    }
    /// Valid until the end of the co_await expression.
    [[nodiscard]] Result<Outcome>&& await_resume() { return *std::move(slot.result); }
  };

  class Wait {
   public:
    Wait(const Flow& flow, Watch* watch, BootTime look_again_at, BootTime deadline, std::stop_token stop)
        : flow_(flow),
          watch_(watch),
          look_again_at_(look_again_at),
          deadline_(deadline),
          stop_(std::move(stop)) {}

    [[nodiscard]] bool await_ready() {
      if (!flow_.blocks()) return false;
      if (watch_ != nullptr) {
        woken_ = await(*watch_, look_again_at_, deadline_, stop_);
      } else {
        os::sleep_until(std::min(look_again_at_, deadline_), stop_);
      }
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      if (watch_ == nullptr) return sleep(operation, std::min(look_again_at_, deadline_));
      defer_completions([&] {
        watch_->wait(look_again_at_, deadline_, stop_, [this, operation](const Result<bool>& answer) {
          if (!answer) return sleep(operation, look_without_wake_ups());
          woken_ = *answer;
          operation.resume();
        });
      });
    }
    [[nodiscard]] bool await_resume() const {
      if (failed_) throw *failed_;
      return woken_;
    }

   private:
    /// No thread of the engine could wake this wait, so it polls by the clock.
    [[nodiscard]] BootTime look_without_wake_ups() const noexcept {
      return std::min({look_again_at_, deadline_, BootClock::now() + std::chrono::seconds(1)});
    }
    void sleep(std::coroutine_handle<> operation, BootTime until) {
      const auto threads = flow_.runtime_;
      try {
        defer_completions([&] {
          threads->sleep_until(until, stop_, [operation](const Result<bool>&) { operation.resume(); });
        });
      } catch (const Error& error) {  // no thread for the timer either
        failed_ = error;
        operation.resume();
      }
    }

    const Flow& flow_;
    Watch* watch_;
    BootTime look_again_at_, deadline_;
    std::stop_token stop_;
    bool woken_ = false;
    std::optional<Error> failed_;
  };

  struct Listen {
    const Flow& flow;
    ChangeFeed& feed;
    BootTime deadline;
    std::stop_token stop;
    Slot<std::vector<Change>> slot = {};

    [[nodiscard]] bool await_ready() {
      if (!flow.blocks()) return false;
      feed.wait(deadline, std::move(stop), Done<std::vector<Change>>::into(slot));
      slot.completion.wait();
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      defer_completions([&] {
        feed.wait(deadline, stop, [this, operation](Result<std::vector<Change>> changes) {
          slot.result.emplace(std::move(changes));
          operation.resume();
        });
      });
    }
    [[nodiscard]] Result<std::vector<Change>> await_resume() { return *std::move(slot.result); }
  };

  struct Hop {
    const Flow& flow;
    [[nodiscard]] bool await_ready() const noexcept {
      return flow.blocks() || flow.runtime_->may_run_user_code_here();
    }
    void await_suspend(std::coroutine_handle<> operation) const {
      const auto threads = flow.runtime_;
      threads->user_code.post([operation] { operation.resume(); }, WorkerPool::Priority::limited);
    }
    void await_resume() const noexcept {}
  };

  std::shared_ptr<Runtime> runtime_;
  CallersContext context_;
};

}  // namespace holdfast::runtime
