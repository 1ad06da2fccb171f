// What a live view costs a Redis server and its own process: held locks among other keys, one viewer. How
// long a grant takes to appear. What a viewer adds to the server's time for a pair of acquire and release.
//
//   view_cost URL HOST PORT LOCKS OTHER_KEYS SECONDS
//
// The server's time is its own account (INFO commandstats; for pairs, INFO cpu), without the commands that
// this program sends for the measurement. Use a server of its own: the keys are not removed.
#include <hiredis/hiredis.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <holdfast/holdfast.hpp>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "top/frame.hpp"
#include "view/store_view.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

std::string ask(redisContext* server, const char* command) {
  auto* reply = static_cast<redisReply*>(redisCommand(server, command));
  std::string text = reply != nullptr && reply->str != nullptr ? std::string(reply->str, reply->len) : "";
  freeReplyObject(reply);
  return text;
}

/// Microseconds by command.
std::map<std::string, double> command_times(redisContext* server) {
  std::map<std::string, double> times;
  std::istringstream lines(ask(server, "INFO commandstats"));
  for (std::string line; std::getline(lines, line);) {
    const auto name = line.find("cmdstat_"), colon = line.find(':'), usec = line.find("usec=");
    if (name != 0 || usec == std::string::npos) continue;
    times[line.substr(8, colon - 8)] = std::strtod(line.c_str() + usec + 5, nullptr);
  }
  return times;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void add_other_keys(redisContext* server, long count) {
  for (long i = 0; i < count; ++i) {
    redisAppendCommand(server, "SET other:%ld value-of-some-length", i);
    if (i % 10'000 != 9'999 && i + 1 != count) continue;
    for (long left = i % 10'000; left >= 0; --left) {
      void* reply = nullptr;
      if (redisGetReply(server, &reply) == REDIS_OK) freeReplyObject(reply);
    }
  }
}

/// Waits until a lock is shown; how long after its grant.
class Appearance {
 public:
  void see(const view::Snapshot& snapshot) {
    const std::lock_guard guard(mutex_);
    if (key_.empty() ||
        std::ranges::none_of(snapshot.locks, [&](const auto& row) { return row->key == key_; }))
      return;
    key_.clear();
    changed_.notify_all();
  }
  double milliseconds_until_shown(const Locks& locks, const std::string& key) {
    {
      const std::lock_guard guard(mutex_);
      key_ = key;
    }
    const auto held = locks.lock(key, {.ttl = 1h, .wait = 10s, .auto_renew = false});
    const auto begin = BootClock::now();
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return key_.empty(); });
    return std::chrono::duration<double, std::milli>(BootClock::now() - begin).count();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string key_;
};

void print_appearance(const Locks& locks, Appearance& appearance) {
  constexpr int count = 200;
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(37 * i % 400));
    times.push_back(appearance.milliseconds_until_shown(locks, "new:" + std::to_string(i)));
  }
  std::ranges::sort(times);
  std::printf("a grant is shown after: median %.0f ms, p99 %.0f ms, worst of %d %.0f ms\n", times[count / 2],
              times[count * 99 / 100], count, times.back());
}

double server_cpu_seconds(redisContext* server) {
  const auto text = ask(server, "INFO cpu");
  const auto number = [&](const char* name) {
    return std::strtod(text.c_str() + text.find(name) + std::strlen(name), nullptr);
  };
  return number("used_cpu_sys:") + number("used_cpu_user:");
}

/// Microseconds of the server for a pair, so many in a second. With few locks: what the viewer
/// reads counts too.
double pair_microseconds(redisContext* server, const Locks& locks, int per_second) {
  const auto length = 4s;
  const int count = per_second * 4;
  const auto before = server_cpu_seconds(server);
  const auto begin = BootClock::now();
  for (int i = 0; i < count; ++i) {
    static_cast<void>(locks.lock("pair:" + std::to_string(i), {.wait = 10s, .auto_renew = false}));
    std::this_thread::sleep_for(begin + (i + 1) * length / count - BootClock::now());
  }
  return (server_cpu_seconds(server) - before) / count * 1e6;
}

double frame_microseconds(const view::Snapshot& snapshot) {
  cli::top::State state;
  constexpr int count = 20;
  const auto begin = BootClock::now();
  for (int i = 0; i < count; ++i) {
    const auto rows = cli::top::rows_of(snapshot, state);
    settle(state, rows, 20);
    static_cast<void>(
        compose(snapshot, rows, state, {.size = {}, .now = BootClock::now(), .store = "redis"}));
  }
  return std::chrono::duration<double, std::micro>(BootClock::now() - begin).count() / count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs("usage: view_cost URL HOST PORT LOCKS OTHER_KEYS SECONDS\n", stderr);
    return 64;
  }
  const auto locks = std::atol(argv[4]), others = std::atol(argv[5]);
  const std::chrono::seconds length(std::atol(argv[6]));
  auto* server = redisConnect(argv[2], std::atoi(argv[3]));
  const auto store = open(argv[1]);
  add_other_keys(server, others);
  for (long i = 0; i < locks; ++i) {
    static_cast<void>(store.locks().acquire("held:" + std::to_string(i), {.ttl = 1h, .wait = 10s}));
  }

  view::StoreView view(store);
  const auto begin = BootClock::now();
  std::atomic<std::int64_t> whole_ms = -1;
  Appearance appearance;
  auto viewer = view.subscribe([&](const auto& snapshot) {
    appearance.see(*snapshot);
    if (snapshot->whole && whole_ms < 0) {
      whole_ms = std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - begin).count();
    }
  });
  while (whole_ms < 0) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(2s);

  const auto before = command_times(server);
  const auto cpu_before = cpu_seconds();
  std::int64_t oldest_ms = 0, rounds_ms = 0;
  const auto end = BootClock::now() + length;
  while (BootClock::now() < end) {
    std::this_thread::sleep_for(50ms);
    const auto snapshot = view.latest();
    oldest_ms = std::max<std::int64_t>(oldest_ms, snapshot->age(BootClock::now()).count());
    rounds_ms = std::max<std::int64_t>(rounds_ms, snapshot->round.count());
  }
  const auto cpu = cpu_seconds() - cpu_before;
  double server_us = 0;
  const auto seconds = static_cast<double>(length.count());
  for (const auto& [name, usec] : command_times(server)) {
    const auto known = before.find(name);
    const auto used = usec - (known == before.end() ? 0 : known->second);
    if (name == "info" || used <= 0) continue;
    server_us += used;
    std::printf("  %-24s %8.0f us per second\n", name.c_str(), used / seconds);
  }
  const auto snapshot = view.latest();
  std::printf("locks %zu, other keys %ld\n", snapshot->lock_count(), others);
  std::printf("first whole snapshot after %lld ms\n", static_cast<long long>(whole_ms));
  std::printf("server time %.2f %%, own CPU %.2f %%\n", server_us / seconds / 1e4, cpu / seconds * 100);
  std::printf("oldest snapshot %lld ms, longest round %lld ms\n", static_cast<long long>(oldest_ms),
              static_cast<long long>(rounds_ms));
  std::printf("frame %.0f us with all rows sorted anew\n", frame_microseconds(*snapshot));
  std::fflush(stdout);
  print_appearance(store.locks(), appearance);
  std::fflush(stdout);
  viewer = {};
  for (const int per_second : {100, 500}) {
    std::vector<double> with, without;
    for (int i = 0; i < 5; ++i) {
      without.push_back(pair_microseconds(server, store.locks(), per_second));
      viewer = view.subscribe();
      std::this_thread::sleep_for(3s);
      with.push_back(pair_microseconds(server, store.locks(), per_second));
      viewer = {};
      std::this_thread::sleep_for(1s);
    }
    std::ranges::sort(with);
    std::ranges::sort(without);
    std::printf("%d pairs a second: %.1f us of the server each (least %.1f), with a viewer %.1f (%.1f)\n",
                per_second, without[2], without[0], with[2], with[0]);
    std::fflush(stdout);
  }
  redisFree(server);
}
