#pragma once

#include <functional>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/fenced_register.hpp>
#include <holdfast/tasks.hpp>
#include <string>
#include <string_view>

namespace holdfast {

// The token is always the last argument. The others are copied by the call, so they may end before it begins.
// g++ 12 destroys a braced list with strings in a co_await expression twice: give a NewTask, ListTasks,
// ListOwners or FencingToken a name there.

/// A Claim for coroutines and callbacks: the same lock, the same fence. What asks the engine takes a
/// completion token and completes on the handler's executor, by default the one that the claim was made with.
/// It must not end or move before that. The destructor never blocks: it releases in the background.
class AsyncClaim {
 public:
  using executor_type = asio::any_io_executor;

  /// An empty claim.
  AsyncClaim() noexcept = default;
  AsyncClaim(asio::any_io_executor executor, Claim claim) noexcept
      : executor_(std::move(executor)), claim_(std::move(claim)) {}
  // The other one is empty then, but still knows where to complete.
  AsyncClaim(AsyncClaim&& other) noexcept
      : executor_(other.get_executor()), claim_(std::move(other.claim_)) {}
  AsyncClaim& operator=(AsyncClaim&& other) noexcept {
    if (this != &other) {
      claim_.release_in_background();
      executor_ = other.executor_;
      claim_ = std::move(other.claim_);
    }
    return *this;
  }
  ~AsyncClaim() { claim_.release_in_background(); }

  [[nodiscard]] executor_type get_executor() const { return executor_; }

  // As those of Claim.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(claim_); }
  [[nodiscard]] Task task() const { return claim_.task(); }
  [[nodiscard]] FencingToken fence() const { return claim_.fence(); }
  [[nodiscard]] std::stop_token stopped() const noexcept { return claim_.stopped(); }
  [[nodiscard]] bool cancelled() const { return claim_.cancelled(); }
  /// The lock, to look at.
  [[nodiscard]] const Guard& guard() { return claim_.guard(); }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(TaskStatus status, std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [status, message = std::move(message)](Claim& claim, auto&&... end) {
                        claim.update_status(status, message, std::forward<decltype(end)>(end)...);
                      });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(const Json& changes, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token), [changes](Claim& claim, auto&&... end) {
      claim.set_variables(changes, std::forward<decltype(end)>(end)...);
    });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto complete(const Json& result, std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [result, message = std::move(message)](Claim& claim, auto&&... end) {
                        claim.complete(result, message, std::forward<decltype(end)>(end)...);
                      });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::optional<std::string> message = {}, Token&& token = {}) {
    return update_status(TaskStatus::failed, std::move(message), std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(const Json& result, std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [result, message = std::move(message)](Claim& claim, auto&&... end) {
                        claim.fail_with_result(result, message, std::forward<decltype(end)>(end)...);
                      });
  }
  /// bool: false if the lock was lost already
  template <class Token = asio::use_awaitable_t<>>
  auto release(Token&& token = {}) {
    return call<bool>(std::forward<Token>(token), [](Claim& claim, auto&&... end) {
      claim.release(std::forward<decltype(end)>(end)...);
    });
  }

  /// The claim itself, for code that blocks; this one is empty then.
  [[nodiscard]] Claim into_claim() && noexcept { return std::move(claim_); }

 private:
  /// `begin(claim, stop, done)`
  template <class T, class Token, class Begin>
  auto call(Token&& token, Begin begin) {
    return async_call<T>(
        executor_,
        [this, begin = std::move(begin)](std::stop_token stop, Done<T> done) {
          begin(claim_, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  asio::any_io_executor executor_ = asio::system_executor();
  Claim claim_;
};

/// Tasks for coroutines and callbacks: every operation of Tasks, with any completion token
/// (`asio::use_awaitable` if none is given), completed on the handler's executor. No call blocks; an engine
/// that does (SQLite) has a small pool for it. A cancelled operation ends with Aborted. Errors are
/// holdfast::Error. Cheap to copy. May be called from any thread.
class AsyncTasks {
 public:
  using executor_type = asio::any_io_executor;

  AsyncTasks(asio::any_io_executor executor, Tasks tasks)
      : executor_(std::move(executor)), tasks_(std::move(tasks)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] Tasks& blocking() noexcept { return tasks_; }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto create(std::string_view owner, const NewTask& task, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), task](Tasks& tasks, auto&&... end) {
                        tasks.create(owner, task, std::forward<decltype(end)>(end)...);
                      });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto get(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id)](Tasks& tasks, auto&&... end) {
                        tasks.get(owner, id, std::forward<decltype(end)>(end)...);
                      });
  }
  /// TaskPage
  template <class Token = asio::use_awaitable_t<>>
  auto list(std::string_view owner, const ListTasks& what, Token&& token = {}) {
    return call<TaskPage>(std::forward<Token>(token),
                          [owner = std::string(owner), what](Tasks& tasks, auto&&... end) {
                            tasks.list(owner, what, std::forward<decltype(end)>(end)...);
                          });
  }
  // Not a default argument: g++ 12 would destroy it twice.
  template <class Token = asio::use_awaitable_t<>>
  auto list(std::string_view owner) {
    return list(owner, ListTasks{}, Token());
  }
  /// OwnerPage
  template <class Token = asio::use_awaitable_t<>>
  auto owners(const ListOwners& what, Token&& token = {}) {
    return call<OwnerPage>(std::forward<Token>(token), [what](Tasks& tasks, auto&&... end) {
      tasks.owners(what, std::forward<decltype(end)>(end)...);
    });
  }
  template <class Token = asio::use_awaitable_t<>>
  auto owners() {
    return owners(ListOwners{}, Token());
  }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto update_status(std::string_view owner, std::string_view id, TaskStatus status,
                     std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id), status,
                       message = std::move(message)](Tasks& tasks, auto&&... end) {
                        tasks.update_status(owner, id, status, message, std::forward<decltype(end)>(end)...);
                      });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_variables(std::string_view owner, std::string_view id, const Json& changes, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token), [owner = std::string(owner), id = std::string(id), changes](
                                                      Tasks& tasks, auto&&... end) {
      tasks.set_variables(owner, id, changes, std::forward<decltype(end)>(end)...);
    });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto set_result(std::string_view owner, std::string_view id, const Json& result, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token), [owner = std::string(owner), id = std::string(id), result](
                                                      Tasks& tasks, auto&&... end) {
      tasks.set_result(owner, id, result, std::forward<decltype(end)>(end)...);
    });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto complete_with_result(std::string_view owner, std::string_view id, const Json& result,
                            std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token), [owner = std::string(owner), id = std::string(id), result,
                                     message = std::move(message)](Tasks& tasks, auto&&... end) {
          tasks.complete_with_result(owner, id, result, message, std::forward<decltype(end)>(end)...);
        });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail(std::string_view owner, std::string_view id, std::optional<std::string> message = {},
            Token&& token = {}) {
    return update_status(owner, id, TaskStatus::failed, std::move(message), std::forward<Token>(token));
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto fail_with_result(std::string_view owner, std::string_view id, const Json& result,
                        std::optional<std::string> message = {}, Token&& token = {}) {
    return call<Task>(
        std::forward<Token>(token), [owner = std::string(owner), id = std::string(id), result,
                                     message = std::move(message)](Tasks& tasks, auto&&... end) {
          tasks.fail_with_result(owner, id, result, message, std::forward<decltype(end)>(end)...);
        });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto cancel(std::string_view owner, std::string_view id, std::optional<std::string> message = {},
              Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id), message = std::move(message)](
                          Tasks& tasks, auto&&... end) {
                        tasks.cancel(owner, id, message, std::forward<decltype(end)>(end)...);
                      });
  }
  /// bool
  template <class Token = asio::use_awaitable_t<>>
  auto remove(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call<bool>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id)](Tasks& tasks, auto&&... end) {
                        tasks.remove(owner, id, std::forward<decltype(end)>(end)...);
                      });
  }
  /// std::optional<Json>
  template <class Token = asio::use_awaitable_t<>>
  auto get_result(std::string_view owner, std::string_view id, Token&& token = {}) {
    return call<std::optional<Json>>(
        std::forward<Token>(token),
        [owner = std::string(owner), id = std::string(id)](Tasks& tasks, auto&&... end) {
          tasks.get_result(owner, id, std::forward<decltype(end)>(end)...);
        });
  }

  /// std::optional<Task>: nothing if the timeout passes first. `until` runs on a thread of the library, not
  /// on the executor; see Tasks::wait.
  template <class Token = asio::use_awaitable_t<>>
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout,
            std::function<bool(const Task&)> until, Token&& token = {}) {
    return call<std::optional<Task>>(
        std::forward<Token>(token), [owner = std::string(owner), id = std::string(id), timeout,
                                     until = std::move(until)](Tasks& tasks, auto&&... end) {
          tasks.wait(owner, id, timeout, until, std::forward<decltype(end)>(end)...);
        });
  }
  /// std::optional<Task>, once it is final.
  template <class Token = asio::use_awaitable_t<>>
    requires(!std::is_convertible_v<Token, std::function<bool(const Task&)>>)
  auto wait(std::string_view owner, std::string_view id, std::chrono::milliseconds timeout = no_time_limit,
            Token&& token = {}) {
    return wait(owner, id, timeout, nullptr, std::forward<Token>(token));
  }

  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto bind(std::string_view owner, std::string_view id, const FencingToken& fence, Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id), fence](Tasks& tasks, auto&&... end) {
                        tasks.bind(owner, id, fence, std::forward<decltype(end)>(end)...);
                      });
  }
  /// Task
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(std::string_view owner, std::string_view id, const std::optional<FencingToken>& fence,
              Token&& token = {}) {
    return call<Task>(std::forward<Token>(token),
                      [owner = std::string(owner), id = std::string(id), fence](Tasks& tasks, auto&&... end) {
                        tasks.rebind(owner, id, fence, std::forward<decltype(end)>(end)...);
                      });
  }

  /// AsyncClaim. Cancelled while it waits for the lock, it holds nothing.
  template <class Token = asio::use_awaitable_t<>>
  auto claim(std::string_view owner, std::string_view id, const LockOptions& how = {}, Token&& token = {}) {
    return async_call<Claim>(
        executor_,
        [tasks = tasks_, owner = std::string(owner), id = std::string(id), how](std::stop_token stop,
                                                                                Done<Claim> done) mutable {
          tasks.claim(owner, id, how, std::move(stop), std::move(done));
        },
        std::forward<Token>(token),
        [executor = executor_](Claim claimed) { return AsyncClaim(executor, std::move(claimed)); });
  }

  /// std::size_t
  template <class Token = asio::use_awaitable_t<>>
  auto cleanup_expired(Token&& token = {}) {
    return call<std::size_t>(std::forward<Token>(token), [](Tasks& tasks, auto&&... end) {
      tasks.cleanup_expired(std::forward<decltype(end)>(end)...);
    });
  }

  /// The same store, but every write carries this fence; see Tasks.
  [[nodiscard]] AsyncTasks with_fence(FencingToken token) const {
    return {executor_, tasks_.with_fence(std::move(token))};
  }
  [[nodiscard]] AsyncTasks with_fence(const AsyncGuard& guard) const {
    return with_fence({.authority = guard.authority(), .lock_key = guard.key(), .fence = guard.fence()});
  }
  [[nodiscard]] const std::optional<FencingToken>& fence() const noexcept { return tasks_.fence(); }

 private:
  /// `begin(tasks, stop, done)`
  template <class T, class Token, class Begin>
  auto call(Token&& token, Begin begin) {
    return async_call<T>(
        executor_,
        [tasks = tasks_, begin = std::move(begin)](std::stop_token stop, Done<T> done) mutable {
          begin(tasks, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  asio::any_io_executor executor_;
  Tasks tasks_;
};

/// A FencedRegister for coroutines and callbacks. Cheap to copy. May be called from any thread.
class AsyncRegister {
 public:
  using executor_type = asio::any_io_executor;
  using Value = FencedRegister::Value;

  AsyncRegister(asio::any_io_executor executor, FencedRegister fenced)
      : executor_(std::move(executor)), register_(std::move(fenced)) {}
  [[nodiscard]] executor_type get_executor() const { return executor_; }
  [[nodiscard]] FencedRegister& blocking() noexcept { return register_; }

  /// std::optional<Value>
  template <class Token = asio::use_awaitable_t<>>
  auto get(Token&& token = {}) {
    return call<std::optional<Value>>(std::forward<Token>(token), [](FencedRegister& fenced, auto&&... end) {
      fenced.get(std::forward<decltype(end)>(end)...);
    });
  }
  /// std::uint64_t: the version
  template <class Token = asio::use_awaitable_t<>>
  auto put(std::string_view text, const FencingToken& fence, Token&& token = {}) {
    return call<std::uint64_t>(std::forward<Token>(token),
                               [text = std::string(text), fence](FencedRegister& fenced, auto&&... end) {
                                 fenced.put(text, fence, std::forward<decltype(end)>(end)...);
                               });
  }
  /// std::optional<Value>
  template <class Token = asio::use_awaitable_t<>>
  auto guard(const FencingToken& fence, Token&& token = {}) {
    return call<std::optional<Value>>(std::forward<Token>(token),
                                      [fence](FencedRegister& fenced, auto&&... end) {
                                        fenced.guard(fence, std::forward<decltype(end)>(end)...);
                                      });
  }
  /// bool: false if it was never written
  template <class Token = asio::use_awaitable_t<>>
  auto rebind(const FencingToken& fence, Token&& token = {}) {
    return call<bool>(std::forward<Token>(token), [fence](FencedRegister& fenced, auto&&... end) {
      fenced.rebind(fence, std::forward<decltype(end)>(end)...);
    });
  }

 private:
  /// `begin(register, stop, done)`
  template <class T, class Token, class Begin>
  auto call(Token&& token, Begin begin) {
    return async_call<T>(
        executor_,
        [fenced = register_, begin = std::move(begin)](std::stop_token stop, Done<T> done) mutable {
          begin(fenced, std::move(stop), std::move(done));
        },
        std::forward<Token>(token));
  }

  asio::any_io_executor executor_;
  FencedRegister register_;
};

}  // namespace holdfast
