#include "rpc/service.hpp"

#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

namespace holdfast::cli::rpc {
namespace {

asio::awaitable<std::optional<Tasks>> opened(Holdfast holdfast, TaskOptions options) {
  co_return holdfast.tasks(options);
}

}  // namespace

Service::Service(asio::any_io_executor executor, Holdfast holdfast, const TaskOptions& task_options)
    : executor_(std::move(executor)),
      holdfast_(std::move(holdfast)),
      task_options_(task_options),
      locks_(executor_, holdfast_.locks()) {}

asio::awaitable<AsyncTasks> Service::tasks() {
  if (!tasks_) {
    auto tasks = co_await asio::co_spawn(blocking_, opened(holdfast_, task_options_), asio::use_awaitable);
    // Others may have asked meanwhile; all of them share one store.
    tasks_.emplace(executor_, *std::move(tasks));
  }
  co_return *tasks_;
}

template <class T, class Request>
asio::awaitable<T> Service::ask(void (LockBackend::*operation)(Request, std::stop_token, Done<T>),
                                Request request) {
  auto begin = [this, operation, request = std::move(request)](std::stop_token stop, Done<T> done) {
    auto& backend = locks_.blocking().backend();
    if (!backend.capabilities().blocks)
      return (backend.*operation)(request, std::move(stop), std::move(done));
    asio::post(blocking_,
               [&backend, operation, request, stop = std::move(stop), done = std::move(done)]() mutable {
                 (backend.*operation)(std::move(request), std::move(stop), std::move(done));
               });
  };
  co_return co_await async_call<T>(executor_, std::move(begin), asio::use_awaitable);
}

asio::awaitable<ReleaseOutcome> Service::release(LockId id) {
  ReleaseRequest request{.lock = {.id = id, .key = {}}};
  return ask<ReleaseOutcome>(&LockBackend::release, std::move(request));
}

asio::awaitable<ExtendOutcome> Service::extend(LockId id, Ttl ttl) {
  ExtendRequest request{.lock = {.id = id, .key = {}}, .ttl = ttl};
  return ask<ExtendOutcome>(&LockBackend::extend, std::move(request));
}

}  // namespace holdfast::cli::rpc
