// What it takes to keep many guards on a Redis: guards lost, client CPU per renewal, threads. A proxy between
// them, in a process of its own, adds the way there and back.
//
//   renewals                                    the table below
//   renewals GUARDS TTL_MS ROUND_TRIP_MS [SECONDS]   one row; without SECONDS, four ttls

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/redis.hpp>
#include <latch>
#include <thread>

#include "redis_fixture.hpp"
#include "support/tcp_proxy.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int port = 17479;

struct Row {
  std::size_t guards;
  milliseconds ttl;
  milliseconds round_trip;
  milliseconds length;
};

constexpr Row table[] = {
    {1, 90ms, 0ms, 5s},        // alone
    {20, 900ms, 0ms, 6s},      // together
    {1000, 3s, 0ms, 6s},       //
    {3000, 6s, 50ms, 24s},     //
    {10'000, 30s, 50ms, 90s},  //
};

/// In a child, so that its CPU is not counted; it ends with this process.
class Proxy {
 public:
  Proxy(int server_port, milliseconds round_trip) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      holdfast::test::TcpProxy proxy(static_cast<std::uint16_t>(server_port));
      for (const auto way :
           {holdfast::test::TcpProxy::Way::to_server, holdfast::test::TcpProxy::Way::to_client})
        proxy.delay(way, round_trip / 2);
      const auto listens_at = proxy.port();
      if (write(ends[1], &listens_at, sizeof listens_at) != sizeof listens_at) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    if (read(ends[0], &port_, sizeof port_) != sizeof port_) throw std::runtime_error("no proxy");
    close(ends[0]);
  }
  ~Proxy() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

/// Counts renewals that were answered.
class Renewals final : public holdfast::Observer {
 public:
  void ended(const holdfast::Occurrence& occurrence) noexcept override {
    if (occurrence.activity == holdfast::Activity::renew && occurrence.ok()) ++answered;
  }
  std::atomic<std::size_t> answered = 0;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::size_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void measure(const std::string& url, const Row& row) {
  const auto renewals = std::make_shared<Renewals>();
  // Not around the engine: its operations are not what is counted.
  holdfast::Locks locks(
      holdfast::make_redis_lock_backend(holdfast::parse_redis_url(url).value_or_throw()).value_or_throw(),
      nullptr, renewals);
  std::vector<holdfast::Guard> guards(row.guards);
  std::latch granted(static_cast<std::ptrdiff_t>(row.guards));
  for (std::size_t i = 0; i < row.guards; ++i) {
    locks.lock("renewed-" + std::to_string(i), {.ttl = row.ttl, .wait = 60s}, {},
               [&, i](holdfast::Result<holdfast::Guard> guard) {
                 guards[i] = *std::move(guard);
                 granted.count_down();
               });
  }
  granted.wait();
  std::this_thread::sleep_for(std::min<milliseconds>(row.ttl / 4, 1s));
  const auto answered_before = renewals->answered.load();
  const double cpu_before = cpu_seconds();
  std::this_thread::sleep_for(row.length);
  const double cpu = cpu_seconds() - cpu_before;
  const auto answered = renewals->answered.load() - answered_before;
  const auto lost =
      std::ranges::count_if(guards, [](const auto& guard) { return guard.loss_reason().has_value(); });
  std::printf("%6zu %9lld %10lld %9lld %8zu %6zu %12.1f %8zu\n", row.guards,
              static_cast<long long>(row.ttl.count()), static_cast<long long>(row.round_trip.count()),
              static_cast<long long>(row.length.count()), answered, static_cast<std::size_t>(lost),
              answered == 0 ? 0 : cpu * 1e6 / static_cast<double>(answered), threads() - 1);
  for (auto& guard : guards) guard.release_in_background();
}

void print(const bench::Server& server, const Row& row) {
  if (row.round_trip == 0ms) return measure(server.url(), row);
  const Proxy proxy(server.port(), row.round_trip);
  measure(proxy.url(), row);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bench::Server server(port);
  std::printf("guards    ttl ms  rtt ms    for ms  renewals   lost  CPU us each  threads\n");
  if (argc < 4) {
    for (const auto& row : table) print(server, row);
    return 0;
  }
  const auto number = [&](int i) { return std::strtol(argv[i], nullptr, 10); };
  const milliseconds ttl(number(2));
  print(server, {static_cast<std::size_t>(number(1)), ttl, milliseconds(number(3)),
                 argc > 4 ? milliseconds(number(4) * 1000) : ttl * 4});
}
