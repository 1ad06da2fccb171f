// Ten thousand sessions on one thread. Each is a coroutine that waits for its account's lock, changes the
// account and releases the lock. None of them blocks the thread, and no update is lost.
//
//   example_ten_thousand_coroutines [URL]

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cstdio>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t sessions = 10'000;
constexpr std::size_t accounts = 1'000;

struct Bank {
  std::vector<int> balance = std::vector<int>(accounts);
  std::size_t served = 0;
};

asio::awaitable<void> session(holdfast::AsyncLocks locks, Bank& bank, std::size_t account) {
  auto guard = co_await locks.lock("account-" + std::to_string(account), {.wait = 60s});
  const int before = bank.balance[account];
  co_await asio::post(asio::use_awaitable);  // others run here: without the lock, their updates would be lost
  bank.balance[account] = before + 1;
  if (!co_await guard.release()) throw std::runtime_error("the lock was lost");
  ++bank.served;
}

}  // namespace

int main(int argc, char** argv) try {
  auto holdfast = holdfast::open(argc > 1 ? argv[1] : "memory:");
  asio::io_context context(1);
  const holdfast::AsyncLocks locks(context.get_executor(), holdfast.locks());

  Bank bank;
  for (std::size_t i = 0; i < sessions; ++i) {
    asio::co_spawn(context, session(locks, bank, i % accounts), [](const std::exception_ptr& failed) {
      if (failed) std::rethrow_exception(failed);
    });
  }
  context.run();

  std::printf("%zu sessions served on one thread\n", bank.served);
  for (const int balance : bank.balance) {
    if (balance != sessions / accounts) {
      std::printf("an update was lost\n");
      return 1;
    }
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
