#include "rpc/session/service.hpp"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

namespace holdfast::rpc {

Service::Service(asio::any_io_executor executor, Holdfast holdfast, const QueueOptions& options,
                 std::span<const Method> methods)
    : executor_(std::move(executor)),
      holdfast_(std::move(holdfast)),
      options_(options),
      methods_(methods),
      locks_(executor_, holdfast_.locks()) {}

const Method* Service::find_method(std::string_view name) const noexcept {
  const auto found = std::ranges::find(methods_, name, &Method::name);
  return found == methods_.end() ? nullptr : &*found;
}

asio::awaitable<AsyncTasks> Service::tasks() {
  if (!tasks_) {
    // Another request may open one meanwhile: both are the same store.
    tasks_ = co_await async_tasks(executor_, holdfast_, options_.tasks);
  }
  co_return tasks_;
}

asio::awaitable<Queue> Service::queue(std::string name) {
  (void)co_await tasks();  // opens the store, so that the next line does no I/O
  co_return holdfast_.queue(name, options_);
}

template <class Request>
asio::awaitable<typename Request::Outcome> Service::ask(Request request) {
  using Outcome = typename Request::Outcome;
  auto begin = [this, request = std::move(request)](std::stop_token stop, Done<Outcome> done) {
    auto& backend = locks_.blocking().backend();
    if (!backend.capabilities().blocks) return backend.submit(request, std::move(stop), std::move(done));
    asio::post(blocking_, [&backend, request, stop = std::move(stop), done = std::move(done)]() mutable {
      backend.submit(std::move(request), std::move(stop), std::move(done));
    });
  };
  co_return co_await async_call<Outcome>(executor_, std::move(begin), asio::use_awaitable);
}

asio::awaitable<Lease> Service::acquire(std::string key, LockOptions options) {
  auto lock = co_await locks_.acquire(key, options);
  granted_.add(lock.id, LockKey::parse(lock.key).value_or_throw());
  co_return lock;
}

asio::awaitable<ReleaseOutcome> Service::release(LockId id) {
  ReleaseRequest request{.lock = {.id = id, .key = granted_.find(id)}};
  auto asking = ask(std::move(request));
  auto outcome = co_await std::move(asking);
  granted_.erase(id);
  co_return outcome;
}

asio::awaitable<ExtendOutcome> Service::extend(LockId id, Ttl ttl) {
  ExtendRequest request{.lock = {.id = id, .key = granted_.find(id)}, .ttl = ttl};
  return ask(std::move(request));
}

}  // namespace holdfast::rpc
