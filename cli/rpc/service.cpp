#include "rpc/service.hpp"

#include <asio/co_spawn.hpp>
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

asio::awaitable<Tasks> Service::tasks() {
  if (!tasks_) {
    auto tasks = co_await asio::co_spawn(opening_, opened(holdfast_, task_options_), asio::use_awaitable);
    // Others may have asked meanwhile; all of them share one store.
    tasks_ = std::move(tasks);
  }
  co_return *tasks_;
}

}  // namespace holdfast::cli::rpc
