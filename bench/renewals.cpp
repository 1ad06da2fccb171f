// What it takes to keep many guards on a Redis: guards lost, client CPU per renewal, threads. A proxy between
// them, in a process of its own, adds the way there and back. Where there is none, the CPU is compared with
// the least that as many requests cost: a loop of a timer, one write, one poll and one read, without any
// renewing.
//
//   renewals                                    the table below
//   renewals GUARDS TTL_MS ROUND_TRIP_MS [SECONDS]   one row; without SECONDS, four ttls

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
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
#include <optional>
#include <thread>
#include <vector>

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

/// CPU per request of a bare loop that sends as many together as often as the guards of the row are renewed.
double bare_cpu_us(const bench::Server& server, const Row& row) {
  bench::Raw raw(server.port());
  const std::string key(200, 'k');  // about as long as a renewal
  std::string request;
  for (std::size_t i = 0; i < row.guards; ++i) request += "*2\r\n$6\r\nEXISTS\r\n$200\r\n" + key + "\r\n";
  const std::size_t answers = row.guards * 4;  // ":0\r\n"
  std::vector<char> answer(answers);
  const int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
  const auto every = std::chrono::nanoseconds(row.ttl / 3);
  const timespec period{.tv_sec = every / 1s, .tv_nsec = (every % 1s).count()};
  const itimerspec spec{.it_interval = period, .it_value = period};
  timerfd_settime(timer, 0, &spec, nullptr);
  const auto rounds = static_cast<std::size_t>(row.length / every);
  const double before = cpu_seconds();
  for (std::size_t round = 0; round < rounds; ++round) {
    std::uint64_t fired = 0;
    if (read(timer, &fired, sizeof fired) != sizeof fired) throw std::runtime_error("no timer");
    if (send(raw.get()->fd, request.data(), request.size(), MSG_NOSIGNAL) < 0)
      throw std::runtime_error("cannot send");
    for (std::size_t got = 0; got < answers;) {
      pollfd polled{.fd = raw.get()->fd, .events = POLLIN, .revents = 0};
      poll(&polled, 1, -1);
      const auto count = recv(raw.get()->fd, answer.data(), answers - got, 0);
      if (count <= 0) throw std::runtime_error("cannot receive");
      got += static_cast<std::size_t>(count);
    }
  }
  const double cpu = cpu_seconds() - before;
  close(timer);
  return cpu * 1e6 / static_cast<double>(rounds * row.guards);
}

/// `bare`: what to compare with, in microseconds per renewal; empty: nothing.
void measure(const std::string& url, const Row& row, std::optional<double> bare) {
  const auto renewals = std::make_shared<Renewals>();
  // Not around the engine: its operations are not what is counted.
  holdfast::Locks locks(
      holdfast::make_redis_lock_backend(holdfast::parse_redis_url(url).value_or_throw()).value_or_throw(),
      nullptr, renewals);
  std::vector<holdfast::Guard> guards(row.guards);
  std::latch granted(static_cast<std::ptrdiff_t>(row.guards));
  for (std::size_t i = 0; i < row.guards; ++i) {
    locks.start(holdfast::operation::Lock{"renewed-" + std::to_string(i),
                                          holdfast::LockOptions{.ttl = row.ttl, .wait = 60s}},
                {}, [&, i](holdfast::Result<holdfast::Guard> guard) {
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
  const double each = answered == 0 ? 0 : cpu * 1e6 / static_cast<double>(answered);
  std::printf("%6zu %9lld %10lld %9lld %8zu %6zu %12.1f %8zu", row.guards,
              static_cast<long long>(row.ttl.count()), static_cast<long long>(row.round_trip.count()),
              static_cast<long long>(row.length.count()), answered, static_cast<std::size_t>(lost), each,
              threads() - 1);
  if (bare) {
    std::printf(" %10.1f %8.2f\n", *bare, each / *bare);
  } else {
    std::printf("\n");
  }
  for (auto& guard : guards) guard.release_in_background();
}

void print(const bench::Server& server, const Row& row) {
  if (row.round_trip == 0ms) return measure(server.url(), row, bare_cpu_us(server, row));
  const Proxy proxy(server.port(), row.round_trip);
  measure(proxy.url(), row, std::nullopt);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bench::Server server(port);
  std::printf(
      "guards    ttl ms  rtt ms    for ms  renewals   lost  CPU us each  threads    bare us    ratio\n");
  if (argc < 4) {
    for (const auto& row : table) print(server, row);
    return 0;
  }
  const auto number = [&](int i) { return std::strtol(argv[i], nullptr, 10); };
  const milliseconds ttl(number(2));
  print(server, {static_cast<std::size_t>(number(1)), ttl, milliseconds(number(3)),
                 argc > 4 ? milliseconds(number(4) * 1000) : ttl * 4});
}
