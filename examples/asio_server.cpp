// A TCP server that guards a resource for each connection: the first line that a client sends names an
// account, and its lock is held until the connection ends. Others who want that account wait, without a
// thread of their own. A connection whose lock is lost is closed.
//
//   example_asio_server [URL]     serves 40 clients of its own, at a free port of 127.0.0.1
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <istream>
#include <map>
#include <string>

namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

constexpr int clients = 40;
constexpr int accounts = 4;

void rethrow(std::exception_ptr failed) {  // out of context.run()
  if (failed) std::rethrow_exception(failed);
}

/// One line; empty at the end of the connection. Does not throw, so that it may stand beside `||`.
asio::awaitable<std::string> read_line(tcp::socket& socket, asio::streambuf& buffer) {
  std::error_code ended;
  co_await asio::async_read_until(socket, buffer, '\n', asio::redirect_error(asio::use_awaitable, ended));
  std::string line;
  if (!ended) {
    std::istream input(&buffer);
    std::getline(input, line);
  }
  co_return line;
}

class Server {
 public:
  Server(asio::io_context& context, const holdfast::Holdfast& hf)
      : acceptor_(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        locks_(context.get_executor(), hf.locks()) {}

  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  [[nodiscard]] const std::map<std::string, int>& balances() const { return balances_; }

  asio::awaitable<void> accept(int count) {
    for (; count > 0; --count) {
      auto socket = co_await acceptor_.async_accept(asio::use_awaitable);
      asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), rethrow);
    }
  }

 private:
  asio::awaitable<void> serve(tcp::socket socket) {
    asio::streambuf buffer;
    const auto account = co_await read_line(socket, buffer);
    if (account.empty()) co_return;
    auto guard = co_await locks_.lock("account:" + account, {.ttl = 10s, .wait = 60s}, holdfast::as_result);
    if (!guard) {
      const std::string refusal = "busy: " + guard.error().message() + "\n";
      co_await asio::async_write(socket, asio::buffer(refusal), asio::use_awaitable);
      co_return;
    }
    // The lock is ours until the client leaves. Its fence would go along with each write to a database.
    const auto before = balances_[account];
    int deposited = 0;
    for (;;) {
      const auto next = co_await (read_line(socket, buffer) || guard->wait_lost());
      if (next.index() == 1) co_return;  // lost: close the connection, write nothing
      const auto& line = std::get<0>(next);
      if (line.empty()) break;
      deposited += std::stoi(line);
      const std::string answer = guard->fence().to_string() + "\n";
      co_await asio::async_write(socket, asio::buffer(answer), asio::use_awaitable);
    }
    if (guard->still_held()) balances_[account] = before + deposited;
    co_await guard->release();
  }

  tcp::acceptor acceptor_;
  holdfast::AsyncLocks locks_;
  std::map<std::string, int> balances_;
};

/// Three deposits of 1 in one connection, which has the account meanwhile.
asio::awaitable<void> client(tcp::endpoint server, std::string account, int& served) {
  tcp::socket socket(co_await asio::this_coro::executor);
  co_await socket.async_connect(server, asio::use_awaitable);
  asio::streambuf buffer;
  account += '\n';
  co_await asio::async_write(socket, asio::buffer(account), asio::use_awaitable);
  std::string fence;
  for (int i = 0; i < 3; ++i) {
    co_await asio::async_write(socket, asio::buffer("1\n", 2), asio::use_awaitable);
    const auto answer = co_await read_line(socket, buffer);
    if (answer.size() != 15 || (i > 0 && answer != fence)) throw std::runtime_error("unexpected: " + answer);
    fence = answer;
  }
  ++served;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto hf = holdfast::open(argc > 1 ? argv[1] : "memory:");
  asio::io_context context(1);
  Server server(context, hf);
  int served = 0;
  asio::co_spawn(context, server.accept(clients), rethrow);
  for (int i = 0; i < clients; ++i) {
    asio::co_spawn(context, client(server.endpoint(), std::to_string(i % accounts), served), rethrow);
  }
  context.run();

  std::printf("%d clients served on one thread\n", served);
  for (const auto& [account, balance] : server.balances()) {
    std::printf("account %s: %d\n", account.c_str(), balance);
    if (balance != 3 * clients / accounts) return 1;
  }
  return served == clients && server.balances().size() == accounts ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
