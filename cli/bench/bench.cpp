#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments/context.hpp"
#include "bench/workload.hpp"
#include "lock_wait/lock_wait.hpp"
#include "process/job_control.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::nanoseconds;

constexpr int most_seconds = 60;
/// Fewer would be exceeded by the first calls of each step.
constexpr int fewest_pairs_per_second = 100;
constexpr int most_pairs_per_second = 1'000'000;

struct BenchOptions {
  int seconds = 5;
  int rate = 1000;
};

double micros(nanoseconds length) {
  return std::chrono::duration<double, std::micro>(length).count();
}

std::string with_digits(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// "0.8 us", "41 us", "1.25 ms"
std::string short_time(nanoseconds length) {
  const double us = micros(length);
  if (us < 10) return with_digits(us, 1) + " us";
  if (us < 1000) return with_digits(us, 0) + " us";
  return with_digits(us / 1000, us < 10'000 ? 2 : 1) + " ms";
}

/// What no cleaning up removes, by engine: fences must rise for as long as the store exists.
std::string remains(const Locks& locks) {
  const auto engine = locks.capabilities().backend;
  if (engine == memory_capabilities.backend) return "nothing: memory: ends with this command";
  if (engine == redis_capabilities.backend)
    return "eight keys with a fence counter each, which are never deleted";
  return "no record; the fences of the file rise by one with each acquire";
}

/// A line on a terminal that the next one overwrites; nothing without a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool silent) : shown_(!silent && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const BenchStep& step) {
    if (!shown_) return;
    std::cerr << clear_line << "bench: round " << step.round << " of " << step.rounds << ": " << step.what
              << std::flush;
    dirty_ = true;
  }
  void clear() {
    if (dirty_) std::cerr << clear_line << std::flush;
    dirty_ = false;
  }

 private:
  static constexpr std::string_view clear_line = "\r\x1b[K";
  bool shown_;
  bool dirty_ = false;
};

/// p50 as a multiple of a read's: how many round trips a call is, if the server is not on this machine.
std::optional<double> in_reads(const std::vector<Measurement>& all, const Measurement& one) {
  const auto read = all.front().took.percentile(0.5);
  if (read <= nanoseconds::zero()) return std::nullopt;
  return micros(one.took.percentile(0.5)) / micros(read);
}

void print_measurements(const std::vector<Measurement>& all) {
  std::vector<std::vector<std::string>> rows{{"CALL", "COUNT", "P50", "P99", "MAX", "READS", "PER SECOND"}};
  for (const auto& one : all) {
    const auto reads = in_reads(all, one);
    rows.push_back({std::string(one.description), std::to_string(one.took.count()),
                    short_time(one.took.percentile(0.5)), short_time(one.took.percentile(0.99)),
                    short_time(one.took.percentile(1)), reads ? with_digits(*reads, 1) : "-",
                    one.per_second() ? with_digits(*one.per_second(), 0) : "-"});
  }
  print_table(rows);
}

nlohmann::ordered_json as_json(const std::vector<Measurement>& all) {
  const auto rounded = [](double value) { return static_cast<double>(std::llround(value * 10)) / 10; };
  auto array = nlohmann::ordered_json::array();
  for (const auto& one : all) {
    nlohmann::ordered_json object{{"name", one.name},
                                  {"count", one.took.count()},
                                  {"p50Us", rounded(micros(one.took.percentile(0.5)))},
                                  {"p99Us", rounded(micros(one.took.percentile(0.99)))},
                                  {"maxUs", rounded(micros(one.took.percentile(1)))}};
    const auto reads = in_reads(all, one);
    object["reads"] = reads ? nlohmann::ordered_json(rounded(*reads)) : nlohmann::ordered_json();
    object["perSecond"] =
        one.per_second() ? nlohmann::ordered_json(rounded(*one.per_second())) : nlohmann::ordered_json();
    array.push_back(std::move(object));
  }
  return array;
}

/// Whether --rate and not the store decided how many calls there were.
bool is_limited_by_rate(const std::vector<Measurement>& all, int rate) {
  return std::ranges::any_of(
      all, [&](const Measurement& one) { return one.per_second().value_or(0) > 0.9 * rate; });
}

int measure(const Context& context, const BenchOptions& options) {
  const InheritedSignals inherited;
  SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}, inherited);
  std::signal(SIGPIPE, SIG_IGN);
  InterruptibleWait waiting(signals, Announce::never);
  const auto store = open_store(context);
  const auto& locks = store.locks();
  // A second process would have connections of its own. A memory: of its own would be another store.
  const bool is_private = locks.capabilities().backend == memory_capabilities.backend;
  const auto second = is_private ? store : open_store(context);
  waiting.begin_attempts();

  complain("bench: " + store.url() + " for about " + std::to_string(options.seconds) + " s, at most " +
           std::to_string(options.rate) + " pairs per second, with the keys " +
           std::string(bench_keys.front()) + " to " + std::string(bench_keys.back()) +
           ". What remains in the store: " + remains(locks) + ".");
  ProgressLine progress(logs_json());
  Workload workload(
      locks, second.locks(),
      {.time = std::chrono::seconds(options.seconds), .rate = static_cast<double>(options.rate)},
      waiting.stop(), [&](const BenchStep& step) { progress.show(step); });
  workload.run();
  progress.clear();
  const auto signal = waiting.finish();

  const auto& all = workload.results();
  if (context.json) {
    print_json({{"url", store.url()},
                {"engine", locks.capabilities().backend},
                {"seconds", options.seconds},
                {"rate", options.rate},
                {"interrupted", signal.has_value()},
                {"keys", bench_keys},
                {"grants", workload.grants()},
                {"remains", remains(locks)},
                {"measurements", as_json(all)}});
  } else if (!all.empty()) {
    print_measurements(all);
  }
  std::string ended = signal ? "bench: stopped early. " : "bench: ";
  ended += "All locks are released after " + std::to_string(workload.grants()) +
           " grants. What remains in the store: " + remains(locks) + ".";
  if (is_limited_by_rate(all, options.rate)) ended += " --rate was the limit; the store can do more.";
  complain(ended);
  return signal ? exit_signal_base + *signal : exit_ok;
}

}  // namespace

void fill_bench(Command command, Context& context) {
  auto options = std::make_shared<BenchOptions>();
  command
      .add_option("--seconds N", options->seconds,
                  "How long to measure, all calls together (default 5, at most 60)")
      .between(1, most_seconds);
  command
      .add_option("--rate N", options->rate,
                  "At most this many pairs of acquire and release per second (default 1000)")
      .between(fewest_pairs_per_second, most_pairs_per_second);
  command.footer(
      "Measures what locks cost in your store, from this machine. It locks eight keys of its own,\n"
      "holdfast-bench:1 to holdfast-bench:8, and no others, and releases them at the end. Ctrl-C ends it\n"
      "with what was measured until then. If it is killed, the keys are free after 10 s.\n"
      "\n"
      "What remains: in Redis, eight keys with a fence counter each (fence counters are never deleted, and\n"
      "further runs add none); in a file, no record, but its fences rise; in memory:, nothing.\n"
      "\n"
      "The default rate is safe for a server in use: a thousand pairs are a few percent of its processor.\n"
      "For the most that the store can do, use a high --rate while it is idle.\n"
      "\n"
      "  read          asks whether a key is locked: one round trip to a server. READS shows the other\n"
      "                calls as multiples of it (p50)\n"
      "  acquire, release, extend\n"
      "                by a guard, one at a time; each is one round trip, or one transaction of a file\n"
      "  8 in flight   pairs of eight threads, each with a key of its own\n"
      "  hand-off      from the release by one holder to the grant of another, which waited on a\n"
      "                connection of its own; at least two round trips, and far more if the waiter has to\n"
      "                poll (holdfast doctor says why)\n"
      "\n"
      "Exit: 0 measured; 69 store unavailable; 75 a key is held: another bench runs; 77 access denied;\n"
      "128+N ended by signal N.\n"
      "\n"
      "Examples:\n"
      "  holdfast bench\n"
      "  holdfast --url redis://cache.internal bench\n"
      "  holdfast --url redis://cache.internal bench --seconds 20 --rate 100000\n"
      "  holdfast --json bench | jq '.measurements[] | {name, p50Us, p99Us}'");
  command.action([&context, options] { return measure(context, *options); });
}

}  // namespace holdfast::cli
