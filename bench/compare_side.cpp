// One side of the comparison that compare.py makes, for sides that are C++ or C.
//
//   compare_side bare PORT       the library's scripts, by sockets alone
//   compare_side hiredis PORT    the library's scripts, by hiredis
//   compare_side holdfast URL    guards
//   compare_side sqlite FILE     the transactions of the SQLite engine, by SQLite alone
//   compare_side flock FILE      flock(2) on an open file
//
// Prints {"version": ...} when it is ready. Then each line of stdin is an order, answered by a line of JSON:
//
//   pairs IN_FLIGHT MS    acquires and releases for so long: {"pairs": n, "seconds": s, "p50": us, "p99": us}
//   hand-offs MS...       holds a lock for so long, with a waiter, and releases it: {"took": [us...]}, the
//   time from
//                         the release to the grant of the waiter

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <latch>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bare_redis.hpp"
#include "bare_sqlite.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

double micros(Clock::duration length) {
  return std::chrono::duration<double, std::micro>(length).count();
}

struct Pairs {
  std::uint64_t count = 0;
  double seconds = 0;
  std::vector<double> took = {};  ///< microseconds of each pair, if it was made one at a time
};

class Side {
 public:
  Side() = default;
  virtual ~Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] virtual std::string version() const = 0;
  virtual void pair() = 0;
  virtual Pairs in_flight(int /*pairs*/, milliseconds /*length*/) {
    throw std::runtime_error("this side makes one pair at a time");
  }
  /// From the release of a lock that was held for so long to the grant of a waiter.
  virtual Clock::duration hand_off(milliseconds /*held*/) {
    throw std::runtime_error("this side has no hand-off");
  }

  Pairs one_at_a_time(milliseconds length) {
    Pairs made;
    const auto start = Clock::now();
    auto now = start;
    while (now - start < length) {
      pair();
      const auto end = Clock::now();
      made.took.push_back(micros(end - now));
      now = end;
    }
    made.count = made.took.size();
    made.seconds = micros(now - start) / 1e6;
    return made;
  }
};

class Bare : public Side {
 public:
  explicit Bare(int port) : port_(port) {}
  [[nodiscard]] std::string version() const override { return "POSIX sockets"; }
  void pair() override {
    // Anew for each slice: a lock that it leaves held would have expired at the next one.
    if (!one_) one_ = std::make_unique<bench::BareGenerator>(port_, 1);
    while (one_->step() == 0) {
    }
  }
  Pairs in_flight(int pairs, milliseconds length) override {
    bench::BareGenerator generator(port_, pairs);
    const auto start = Clock::now();
    const auto count = generator.run(length);
    return {.count = count, .seconds = micros(Clock::now() - start) / 1e6};
  }
  void new_slice() { one_.reset(); }

 private:
  int port_;
  std::unique_ptr<bench::BareGenerator> one_;
};

class Hiredis : public Side {
 public:
  explicit Hiredis(int port) : raw_(port), second_(port), scripts_(raw_), names_("side:hiredis") {}
  [[nodiscard]] std::string version() const override {
    return "hiredis " + std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + "." +
           std::to_string(HIREDIS_PATCH);
  }
  void pair() override {
    const auto id = holdfast::LockId::generate();
    acquire(raw_, id);
    release(raw_, id);
  }
  /// Without a waiter: one connection releases, then the other one acquires. No hand-off can be faster.
  Clock::duration hand_off(milliseconds held) override {
    const auto first = holdfast::LockId::generate();
    const auto next = holdfast::LockId::generate();
    acquire(raw_, first);
    std::this_thread::sleep_for(held);
    const auto start = Clock::now();
    release(raw_, first);
    acquire(second_, next);
    const auto took = Clock::now() - start;
    release(second_, next);
    return took;
  }

 private:
  void acquire(bench::Raw& raw, const holdfast::LockId& id) {
    bench::append_acquire(raw, scripts_, names_, id.str());
    if (!raw.take().starts_with("1,")) throw std::runtime_error("not granted");
  }
  void release(bench::Raw& raw, const holdfast::LockId& id) {
    bench::append_release(raw, scripts_, names_, id.str());
    if (raw.take() != "1") throw std::runtime_error("not released");
  }

  bench::Raw raw_, second_;
  bench::Scripts scripts_;
  bench::Names names_;
};

/// Guards with the default options: a label of the holder, and a lease that is renewed.
class Ours : public Side {
 public:
  explicit Ours(const std::string& url)
      : store_(holdfast::open(url)), second_(url == "memory:" ? store_ : holdfast::open(url)) {}
  [[nodiscard]] std::string version() const override {
    return "Holdfast " + std::string(holdfast::version());
  }
  void pair() override {
    auto guard = store_.locks().try_lock("side:holdfast");
    if (!guard || !guard->release()) throw std::runtime_error("not granted, or not released");
  }
  Pairs in_flight(int pairs, milliseconds length) override {
    std::atomic<bool> stop = false;
    std::latch ended(pairs);
    std::vector<std::unique_ptr<Chain>> chains;
    for (int i = 0; i < pairs; ++i) {
      chains.push_back(
          std::make_unique<Chain>(store_.locks(), "side:holdfast:" + std::to_string(i), stop, ended));
    }
    const auto start = Clock::now();
    for (auto& chain : chains) chain->acquire();
    std::this_thread::sleep_for(length);
    stop = true;
    ended.wait();
    Pairs made{.seconds = micros(Clock::now() - start) / 1e6};
    for (const auto& chain : chains) {
      if (chain->failed) throw std::runtime_error("an operation failed");
      made.count += chain->pairs;
    }
    return made;
  }
  Clock::duration hand_off(milliseconds held) override {
    auto guard = store_.locks().lock("side:hand-off");
    Clock::time_point granted;
    std::jthread waiter([&] {
      auto next = second_.locks().lock("side:hand-off", {.wait = 10s});
      granted = Clock::now();
      next.release();
    });
    std::this_thread::sleep_for(held);
    const auto start = Clock::now();
    guard.release();
    waiter.join();
    return granted - start;
  }

 private:
  /// Each completion starts the next operation.
  struct Chain {
    Chain(const holdfast::Locks& its_locks, std::string its_key, std::atomic<bool>& its_stop,
          std::latch& its_end)
        : locks(its_locks), key(std::move(its_key)), stop(its_stop), ended(its_end) {}

    void acquire() {
      if (stop || failed) return ended.count_down();
      locks.start(holdfast::operation::TryLock{key}, {},
                  [this](holdfast::Result<std::optional<holdfast::Guard>> got) {
                    failed = !got || !*got;
                    if (failed) return ended.count_down();
                    guard = **std::move(got);
                    guard.release({}, [this](const holdfast::Result<bool>& released) {
                      failed = !released || !*released;
                      ++pairs;
                      acquire();
                    });
                  });
    }

    const holdfast::Locks& locks;
    std::string key;
    std::atomic<bool>& stop;
    std::latch& ended;
    holdfast::Guard guard;
    std::uint64_t pairs = 0;
    bool failed = false;
  };

  holdfast::Holdfast store_, second_;
};

class Sqlite : public Side {
 public:
  explicit Sqlite(const std::string& file) : bare_(file, holdfast::Durability::process) {}
  [[nodiscard]] std::string version() const override { return std::string("SQLite ") + sqlite3_libversion(); }
  void pair() override { bare_.pair(); }

 private:
  bench::BareTransactions bare_;
};

class Flock : public Side {
 public:
  explicit Flock(const std::string& file) : first_(opened(file)), second_(opened(file)) {}
  ~Flock() override {
    close(first_);
    close(second_);
  }
  [[nodiscard]] std::string version() const override { return "the kernel's"; }
  void pair() override { change(first_, LOCK_EX), change(first_, LOCK_UN); }
  Clock::duration hand_off(milliseconds held) override {
    change(first_, LOCK_EX);
    Clock::time_point granted;
    std::jthread waiter([&] {
      change(second_, LOCK_EX);
      granted = Clock::now();
      change(second_, LOCK_UN);
    });
    std::this_thread::sleep_for(held);
    const auto start = Clock::now();
    change(first_, LOCK_UN);
    waiter.join();
    return granted - start;
  }

 private:
  static int opened(const std::string& file) {
    const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) throw std::runtime_error("cannot open " + file);
    return descriptor;
  }
  static void change(int descriptor, int how) {
    if (flock(descriptor, how) != 0) throw std::runtime_error("flock failed");
  }

  int first_, second_;
};

std::unique_ptr<Side> make_side(const std::string& name, const std::string& where) {
  if (name == "bare") return std::make_unique<Bare>(std::stoi(where));
  if (name == "hiredis") return std::make_unique<Hiredis>(std::stoi(where));
  if (name == "holdfast") return std::make_unique<Ours>(where);
  if (name == "sqlite") return std::make_unique<Sqlite>(where);
  if (name == "flock") return std::make_unique<Flock>(where);
  throw std::runtime_error("unknown side " + name);
}

double at(std::vector<double>& values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

void obey(Side& side, std::istringstream order) {
  std::string what;
  order >> what;
  if (what == "pairs") {
    int in_flight = 0, ms = 0;
    order >> in_flight >> ms;
    if (auto* bare = dynamic_cast<Bare*>(&side)) bare->new_slice();
    auto made =
        in_flight == 1 ? side.one_at_a_time(milliseconds(ms)) : side.in_flight(in_flight, milliseconds(ms));
    std::printf("{\"pairs\":%llu,\"seconds\":%.6f", static_cast<unsigned long long>(made.count),
                made.seconds);
    if (!made.took.empty())
      std::printf(",\"p50\":%.2f,\"p99\":%.2f", at(made.took, 0.5), at(made.took, 0.99));
    std::printf("}\n");
  } else if (what == "hand-offs") {
    std::string took;
    for (int held = 0; order >> held;) {
      took += (took.empty() ? "" : ",") + std::to_string(micros(side.hand_off(milliseconds(held))));
    }
    std::printf("{\"took\":[%s]}\n", took.c_str());
  } else {
    throw std::runtime_error("unknown order " + what);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: compare_side bare|hiredis|holdfast|sqlite|flock WHERE\n");
    return 64;
  }
  try {
    const auto side = make_side(argv[1], argv[2]);
    std::printf("{\"version\":\"%s\"}\n", side->version().c_str());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) obey(*side, std::istringstream(line));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_side: %s\n", error.what());
    return 1;
  }
}
