#pragma once

#include <algorithm>
#include <coroutine>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "core/await.hpp"
#include "flow/op.hpp"
#include "flow/turn.hpp"
#include "sys/callers_context.hpp"
#include "sys/sleep.hpp"
#include "sys/timer_queue.hpp"
#include "sys/worker_pool.hpp"

namespace holdfast::flow {

/// What operations need that no thread waits for.
struct Background {
  sys::TimerQueue timers;
  /// For the steps of engines that block. Few: they queue for one file.
  sys::WorkerPool blocking_steps{4};
  /// For what the user gives us, which may block longer than an engine: no step waits for it.
  sys::WorkerPool user_code{4};
};

[[nodiscard]] inline bool blocks(const LockBackend& backend) noexcept {
  return backend.capabilities().blocks;
}
[[nodiscard]] inline bool blocks(const StorageBackend& backend) noexcept {
  return backend.blocks();
}

/// How an operation waits for its steps; that is all in which the blocking API and the other differ.
///
/// Blocking: each step waits on the thread that runs the operation (which may do the engine's I/O meanwhile),
/// so the operation never suspends. Completing: no thread waits; a step suspends the operation, which goes on
/// on the thread that ends the step: of the engine's I/O, of the timers, of the pool. So between two steps it
/// must not block nor run user code.
class Flow {
 public:
  static Flow blocking() noexcept { return {nullptr, {}}; }
  /// `context`: of whoever called, for steps that other threads begin.
  static Flow completing(std::shared_ptr<Background> background, sys::CallersContext context = {}) noexcept {
    return {std::move(background), std::move(context)};
  }
  [[nodiscard]] bool blocks() const noexcept { return background_ == nullptr; }

  /// One operation of a contract: `begin(done)` starts it on the backend. Awaiting gives its Result<T>.
  /// `stop` and `deadline` are those that the backend gets: they count also while there is no thread to begin
  /// on.
  template <class T, class Backend, class Begin>
  [[nodiscard]] auto step(const std::shared_ptr<Backend>& backend, std::stop_token stop, BootTime deadline,
                          Begin begin) const {
    return Step<T, Backend, Begin>{*this, backend, std::move(stop), deadline, std::move(begin), {}};
  }

  /// Begins to watch a key of the backend. Gives the watch, or null where the engine cannot wake.
  template <class Backend, class Key>
  [[nodiscard]] auto watch(const std::shared_ptr<Backend>& backend, const Key& key, BootTime deadline,
                           std::stop_token stop) const {
    return BeginWatch<Backend, Key>{*this, backend, key, deadline, std::move(stop), nullptr};
  }

  /// Gives what Watch::wait answers. An absent watch, null, sleeps until it is time to look again.
  [[nodiscard]] auto wait(Watch* watch, BootTime look_again_at, BootTime deadline,
                          std::stop_token stop) const {
    return Wait{*this, watch, look_again_at, deadline, std::move(stop), false};
  }
  [[nodiscard]] auto sleep_until(BootTime at, std::stop_token stop) const {
    return wait(nullptr, at, at, std::move(stop));
  }

  /// Goes on on a thread for user code; a blocking flow is on one already.
  [[nodiscard]] auto leave_io_thread() const { return Hop{*this}; }

 private:
  Flow(std::shared_ptr<Background> background, sys::CallersContext context) noexcept
      : background_(std::move(background)), context_(std::move(context)) {}

  /// What completes inside `begin` completes after it: the operation that goes on may end, and take with it
  /// whatever `begin` still stands on.
  template <class Begin>
  static void defer_completions(Begin&& begin) {
    if (detail::Trampoline::busy()) return begin();
    const detail::Trampoline::Scope scope;
    begin();
  }

  template <class T, class Backend, class Begin>
  struct Step {
    const Flow& flow;
    const std::shared_ptr<Backend>& backend;
    std::stop_token stop;
    BootTime deadline;
    Begin begin;
    std::optional<Result<T>> result;

    [[nodiscard]] bool await_ready() {
      if (!flow.blocks()) return false;
      result.emplace(core::await<T>(*backend, std::move(begin)));
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      auto end = [this, operation](Result<T> answer) {
        result.emplace(std::move(answer));
        operation.resume();
      };
      // The answer may come, and the operation end, on another thread before `begin` has returned.
      auto work = [keep = backend, context = flow.context_, this, end] {
        auto local = std::move(begin);
        defer_completions([&] {
          const sys::CarriedContext carried(context);
          local(Done<T>(end));
        });
      };
      const auto& pool = flow.background_->blocking_steps;
      // In a forked child there is no pool any more, and the engine says so.
      if (!flow::blocks(*backend) || pool.is_mine() || !pool.is_home()) return work();
      // Kept, because the pool's last owner may be the operation itself.
      const auto background = flow.background_;
      if (background->blocking_steps.try_post(work)) return;
      Turn::wait(background, deadline, std::move(stop), std::move(work), [end](Error why) {
        Done<T> done(end);
        done(std::move(why));
      });
    }
    [[nodiscard]] Result<T> await_resume() { return *std::move(result); }
  };

  template <class Backend, class Key>
  struct BeginWatch {
    const Flow& flow;
    const std::shared_ptr<Backend>& backend;
    const Key& key;
    BootTime deadline;
    std::stop_token stop;
    std::unique_ptr<Watch> watch;

    [[nodiscard]] bool await_ready() {
      if (!flow.blocks()) return false;
      watch = backend->watch(key, deadline, stop);
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      // Copies, because the operation may end on another thread while the engine still looks at them.
      const auto keep = backend;
      const Key watched = key;
      defer_completions([&] {
        keep->begin_watch(watched, deadline, stop, [this, operation](Result<std::unique_ptr<Watch>> answer) {
          if (answer) watch = *std::move(answer);
          operation.resume();
        });
      });
    }
    [[nodiscard]] std::unique_ptr<Watch> await_resume() noexcept { return std::move(watch); }
  };

  struct Wait {
    const Flow& flow;
    Watch* watch;
    BootTime look_again_at, deadline;
    std::stop_token stop;
    bool woken;

    [[nodiscard]] bool await_ready() {
      if (!flow.blocks()) return false;
      if (watch != nullptr) {
        woken = watch->wait(look_again_at, deadline, stop);
      } else {
        sys::sleep_until(std::min(look_again_at, deadline), stop);
      }
      return true;
    }
    void await_suspend(std::coroutine_handle<> operation) {
      const auto background = flow.background_;
      Done<bool> done([this, operation](Result<bool> answer) {
        woken = answer && *answer;
        operation.resume();
      });
      defer_completions([&] {
        if (watch != nullptr) {
          watch->begin_wait(look_again_at, deadline, stop, std::move(done));
        } else {
          background->timers.sleep_until(std::min(look_again_at, deadline), stop, std::move(done));
        }
      });
    }
    [[nodiscard]] bool await_resume() const noexcept { return woken; }
  };

  struct Hop {
    const Flow& flow;
    [[nodiscard]] bool await_ready() const noexcept {
      return flow.blocks() || flow.background_->user_code.is_mine();
    }
    void await_suspend(std::coroutine_handle<> operation) const {
      const auto background = flow.background_;
      background->user_code.post([operation] { operation.resume(); });
    }
    void await_resume() const noexcept {}
  };

  std::shared_ptr<Background> background_;
  sys::CallersContext context_;
};

}  // namespace holdfast::flow
