#pragma once

#include <gtest/gtest.h>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <holdfast/asio.hpp>
#include <holdfast/memory.hpp>
#include <memory>
#include <optional>

#include "support/calls.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {

using asio::awaitable;
using asio::use_awaitable;

/// Locks for coroutines on a context that the test runs, and for threads on the same engine.
class AsioFixture : public testing::Test {
 protected:
  /// Runs the coroutine to its end on this thread; what it throws goes on to the test.
  void run(awaitable<void> body) {
    auto end = asio::co_spawn(context, std::move(body), asio::use_future);
    context.restart();
    context.run();
    end.get();
  }

  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  Locks blocking{memory};
  asio::io_context context;
  AsyncLocks locks{context.get_executor(), blocking};
};

/// The code of a holdfast::Error; nothing if nothing was thrown.
inline std::optional<ErrorCode> code_of(const std::exception_ptr& thrown) {
  if (!thrown) return std::nullopt;
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code();
  }
}

}  // namespace holdfast::test
