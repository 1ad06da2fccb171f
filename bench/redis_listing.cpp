// What a view of all held locks costs: server time and client time of a whole listing, by key and as found,
// and of counting waiters.
//
//   redis_listing [LOCKS] [UNRELATED]      default: 10,000 locks, 1,000,000 unrelated keys beside them

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "redis_fixture.hpp"

namespace {

using holdfast::LockOrder;

/// Microseconds that the server spent in commands.
double server_us(bench::Raw& raw) {
  const auto info = raw.call({"INFO", "commandstats"});
  double all = 0;
  for (std::size_t at = 0; (at = info.find("usec=", at)) != std::string::npos; ++at) {
    // Commands inside scripts are part of these.
    const auto line = info.rfind("cmdstat_", at);
    const auto name = info.substr(line + 8, info.find(':', line) - line - 8);
    if (name == "scan" || name.starts_with("eval") || name.starts_with("pubsub")) {
      all += std::strtod(info.c_str() + at + 5, nullptr);
    }
  }
  return all;
}

template <class F>
void measure(bench::Raw& raw, const std::string& what, const F& function) {
  const auto before = server_us(raw);
  const auto began = std::chrono::steady_clock::now();
  const auto calls = function();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  const auto server = (server_us(raw) - before) / 1000;
  std::cout << std::left << std::setw(34) << what << std::right << std::fixed << std::setprecision(1)
            << std::setw(8) << calls << std::setw(12) << server << std::setw(12) << server / calls * 1000
            << std::setw(12) << took.count() << std::endl;
}

int list_all(const holdfast::Locks& locks, LockOrder order, std::vector<holdfast::LockKey>& keys) {
  int pages = 0;
  std::string cursor;
  keys.clear();
  do {
    const auto page = locks.list_raw({.cursor = cursor, .limit = 1000, .order = order});
    for (const auto& lock : page.locks) keys.push_back(lock.key);
    cursor = page.cursor;
    ++pages;
  } while (!cursor.empty());
  return pages;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  close(fd);
  return ntohs(address.sin_port);
}

void run(const std::string& layout, int locks, int unrelated) {
  const bench::Server server(free_port());
  bench::Raw raw(server.port());
  auto store = holdfast::open(server.url() + "?layout=" + layout);
  for (int i = 0; i < locks; ++i) {
    (void)store.locks().acquire("orders:" + std::to_string(i), {.ttl = std::chrono::hours(1)});
  }
  std::vector<holdfast::LockKey> keys;
  const auto all = [&](const std::string& suffix) {
    measure(raw, layout + ", by key" + suffix,
            [&] { return list_all(store.locks(), LockOrder::by_key, keys); });
    measure(raw, layout + ", as found" + suffix,
            [&] { return list_all(store.locks(), LockOrder::as_found, keys); });
  };
  all("");
  measure(raw, layout + ", waiters", [&] {
    int calls = 0;
    for (std::size_t at = 0; at < keys.size(); at += 1000, ++calls) {
      (void)store.locks().count_waiters(
          std::span(keys).subspan(at, std::min<std::size_t>(1000, keys.size() - at)));
    }
    return calls;
  });
  if (unrelated == 0) return;
  for (int i = 0; i < unrelated; i += 1000) {
    for (int j = i; j < i + 1000; ++j) raw.append({"SET", "cache:" + std::to_string(j), "x"});
    for (int j = i; j < i + 1000; ++j) (void)raw.take();
  }
  all(", " + std::to_string(unrelated) + " others");
}

}  // namespace

int main(int argc, char** argv) {
  const int locks = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int unrelated = argc > 2 ? std::atoi(argv[2]) : 1'000'000;
  std::cout << "what                                 calls   server ms  us per call   client ms" << std::endl;
  run("documented", locks, unrelated);
  run("native", locks, unrelated);
}
