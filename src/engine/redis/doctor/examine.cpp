#include "engine/redis/doctor/observations.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "engine/redis/conn/routing_fsm.hpp"
#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/doctor/trial.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/lock_record.hpp"
#include "engine/redis/native_state.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::microseconds;

constexpr int pings = 20;
constexpr int clock_samples = 5;
constexpr std::size_t memory_samples = 20;
/// What MEMORY USAGE of Valkey 8.1 leaves out is the key: its length, and as measured about this much more.
constexpr std::size_t valkey_key_overhead = 40;
constexpr std::size_t counter_samples = 1000;
constexpr std::size_t most_held = 200;
constexpr std::uint64_t scan_step = 1000;
/// A database of a hundred million keys would take minutes. The keys seen by then are a fair sample, because
/// SCAN visits keys in random order.
constexpr auto scan_at_most = std::chrono::seconds(10);
constexpr std::uint64_t tell_every = 200 * scan_step;

class Examination {
 public:
  Examination(const std::shared_ptr<const Endpoint>& endpoint, const LockLayout& locks,
              const StorageLayout& tasks, const Progress& progress, const IsHere& is_here)
      : endpoint_(endpoint),
        options_(endpoint->options()),
        locks_(locks),
        layout_(locks.names()),
        tasks_(tasks),
        progress_(progress),
        line_(endpoint),
        trial_(endpoint, line_, locks, tasks, is_here) {}

  Observations observe() {
    about_the_server();
    if (is_sentinel()) return std::move(seen_);  // a Sentinel supports none of the rest
    seen_.rights = trial_.all();
    seen_.message_reached = trial_.message_reached();
    scripts();
    round_trips();
    clock();
    fences();
    task_layout();
    sentinels();
    cluster_state();
    return std::move(seen_);
  }

 private:
  std::optional<std::string> config(std::string_view name) {
    const auto reply = line_.ask({"CONFIG GET", name});
    const auto pair = elements_of(*reply);
    if (pair.size() != 2) return std::nullopt;
    return std::string(text_of(*pair[1]));
  }

  void about_the_server() {
    if (const auto reply = line_.ask({"INFO"}); !is_error(*reply)) seen_.info = parse_info(text_of(*reply));
    seen_.save = config("save");
    seen_.appendfsync = config("appendfsync");
    if (const auto reply = line_.ask({"ACL WHOAMI"}); !is_error(*reply)) seen_.user = text_of(*reply);
    if (struct stat file{};
        !options_.password_file.empty() && ::stat(options_.password_file.c_str(), &file) == 0) {
      seen_.password_file_mode = file.st_mode & 07777U;
    }
  }

  [[nodiscard]] bool is_sentinel() const {
    const auto mode = seen_.info.find("redis_mode");
    return mode != seen_.info.end() && mode->second == "sentinel";
  }

  [[nodiscard]] bool may(std::string_view command) const {
    const auto found = std::ranges::find(seen_.rights, command, &Right::command);
    return found != seen_.rights.end() && found->is_there();
  }

  /// Runs typical scripts that change nothing: the release of a lock that is not held, and the read of a task
  /// that does not exist.
  void scripts() {
    const LockRef not_held{.id = trial_.lock_id(), .key = trial_.lock_key()};
    run([&](By by) { return locks_.release(not_held, {}, Release::plain, by).value_or_throw().bytes; });
    run([&](By by) { return get_command(tasks_, {.key = trial_.task()}, by).bytes; });
  }
  void run(const auto& script) {
    auto reply = line_.ask_bytes(script(By::sha));
    if (is_noscript(*reply)) {
      reply = line_.ask_bytes(script(By::text));
      if (!is_error(*reply)) reply = line_.ask_bytes(script(By::sha));
    }
    // The task may be at another node of a cluster.
    if (redirection_of(*reply).kind != Redirection::Kind::none) return;
    if (is_error(*reply) && seen_.script_failure.empty()) seen_.script_failure = server_text(*reply);
  }

  void round_trips() {
    const Command question = may("PING") ? Command("PING") : Command("TIME");
    for (int i = 0; i < pings; ++i) {
      const auto before = BootClock::now();
      (void)line_.ask(question);
      seen_.round_trips.push_back(BootClock::now() - before);
    }
  }

  /// The sample with the shortest round trip is the most precise.
  void clock() {
    if (!may("TIME")) return;
    for (int i = 0; i < clock_samples; ++i) {
      const auto before = std::chrono::system_clock::now();
      const auto reply = line_.ask({"TIME"});
      const auto after = std::chrono::system_clock::now();
      const auto parts = elements_of(*reply);
      if (parts.size() != 2) return;
      const auto server = std::chrono::seconds(std::stoll(std::string(text_of(*parts[0])))) +
                          microseconds(std::stoll(std::string(text_of(*parts[1]))));
      const auto half = std::chrono::ceil<microseconds>((after - before) / 2);
      if (seen_.clock_ahead && half >= seen_.clock_uncertainty) continue;
      const auto here = std::chrono::floor<microseconds>(before.time_since_epoch()) + half;
      seen_.clock_ahead = server - here;
      seen_.clock_uncertainty = half;
    }
  }

  void sentinels() {
    if (options_.sentinels.empty()) return;
    seen_.sentinels.all = ask_sentinels(options_);
    seen_.sentinels.master =
        endpoint_->watch()->with_memory([](const SentinelMemory& memory) { return memory.newest(); });
    seen_.sentinels.min_replicas = config("min-replicas-to-write");
  }

  /// At another node of a cluster the marker is not there.
  void task_layout() {
    const auto marker = line_.ask({"GET", tasks_.marker()});
    if (!is_error(*marker)) seen_.task_layout = text_of(*marker);
  }

  void cluster_state() {
    if (endpoint_->servers() != Servers::cluster) return;
    const auto reply = line_.ask({"CLUSTER INFO"});
    if (is_error(*reply)) return;
    seen_.cluster_state = parse_info(text_of(*reply))["cluster_state"];
    seen_.config_epoch = own_epoch_in(*reply);
    seen_.moving_slots = moving_slots_in(*line_.ask({"CLUSTER NODES"}));
  }

  void fences() {
    const auto authority = line_.ask({"GET", layout_.authority_key()});
    const bool documented = authority->type == REDIS_REPLY_STRING, native = is_wrong_type(*authority);
    seen_.has_authority = is_native() ? native : documented;
    seen_.other_layout = is_native() ? documented : native;
    const auto outer = outer_prefixes(layout_.prefix());
    look_for(outer);
    const auto size = integer_of(*line_.ask({"DBSIZE"}));
    if (!may("SCAN")) return;
    FenceCount count{.keys = static_cast<std::uint64_t>(size.value_or(0))};
    std::vector<std::string> samples, held;
    // The outermost prefix that contains ours, to find its counters too: SyncGuard's processes leave no
    // authority.
    const auto pattern = outer.size() < 2 ? layout_.pattern() : pattern_of(outer[outer.size() - 2]);
    std::string cursor = "0";
    const auto give_up_at = BootClock::now() + scan_at_most;
    do {
      const auto page = line_.ask({"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(scan_step)});
      const auto parts = elements_of(*page);
      if (parts.size() != 2) return;
      cursor = text_of(*parts[0]);
      for (const auto* name : elements_of(*parts[1])) {
        const auto text = text_of(*name);
        const auto prefix = prefix_of_counter(text);
        if (prefix && prefixes_nest(*prefix, layout_.prefix())) seen_.nested_prefixes.insert(*prefix);
        if (is_native() && prefix == layout_.prefix() && text != layout_.authority_key()) {
          ++seen_.documented_counters;
        }
        if (!is_native() && held.size() < most_held && layout_.after_prefix(text)) held.emplace_back(text);
        if (!is_counter(text)) continue;
        ++count.counters;
        if (samples.size() < counter_samples) samples.emplace_back(text);
      }
      count.looked_at += scan_step;
      if (progress_ && size && count.looked_at % tell_every == 0) {
        progress_("checked " + std::to_string(std::min(count.looked_at, count.keys)) + " of " +
                  std::to_string(count.keys) + " keys for fence counters");
      }
    } while (cursor != "0" && BootClock::now() < give_up_at);
    seen_.prefixes_known = cursor == "0";
    compare_with_counters(held);
    if (!size) return;
    if (cursor == "0") count.looked_at = std::max(count.looked_at, count.keys);
    weigh(samples, count);
    seen_.fences = count;
  }

  /// The counter is read after the record. A lock that is granted in between makes the counter higher, and a
  /// counter is never lowered, so a lower one has lost writes.
  void compare_with_counters(const std::vector<std::string>& lock_keys) {
    for (const auto& name : lock_keys) {
      const auto fence_key = layout_.fence_key(name);
      const auto reply = line_.ask({"GET", name});
      if (!fence_key || reply->type != REDIS_REPLY_STRING) continue;
      const auto record = parse_lock_record(text_of(*reply));
      if (!record) continue;
      // Otherwise the name is one below a nested prefix, and its counter has another name.
      if (const auto own = layout_.lock_key(record->key); !own || *own != name) continue;
      const auto counter = line_.ask({"GET", *fence_key});
      if (is_error(*counter)) continue;
      std::uint64_t value = 0;
      const auto text = text_of(*counter);
      (void)std::from_chars(text.data(), text.data() + text.size(), value);
      ++seen_.held.checked;
      if (record->fence.value() > value) ++seen_.held.above_counter;
    }
  }

  /// Found by their authorities, as far as we may read those.
  void look_for(const std::vector<std::string>& prefixes) {
    for (const auto& prefix : prefixes) {
      const auto layout = Layout::make(prefix, options_.db);
      if (!layout) continue;
      const auto authority = line_.ask({"GET", layout->authority_key()});
      if (authority->type == REDIS_REPLY_STRING || is_wrong_type(*authority)) {
        seen_.nested_prefixes.insert(prefix);
      }
    }
  }

  [[nodiscard]] bool is_native() const { return layout_of(options_) == RedisLayout::native; }
  [[nodiscard]] bool is_counter(std::string_view name) const {
    if (is_native()) return layout_.after_prefix(name).has_value();
    // A counter's name is longer than the common beginning: that alone is the authority's name.
    return name.starts_with(layout_.authority_key()) && name.size() > layout_.authority_key().size();
  }

  [[nodiscard]] std::string pattern_of(const std::string& prefix) const {
    const auto layout = Layout::make(prefix, options_.db);
    return layout ? layout->pattern() : layout_.pattern();
  }

  void look_at_counter(const std::string& name) {
    std::uint64_t value = 0;
    if (is_native()) {
      const auto reply = line_.ask(Command::begin_trial("HGET", 2).add(name).add("s"));
      const auto state = is_error(*reply) ? std::nullopt : NativeState::parse(text_of(*reply));
      if (!state) return;
      value = state->counter;
    } else {
      const auto reply = line_.ask({"GET", name});
      const auto text = text_of(*reply);
      if (is_error(*reply)) return;
      if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return;
    }
    seen_.highest_counter = std::max(seen_.highest_counter.value_or(0), value);
  }

  void weigh(const std::vector<std::string>& samples, FenceCount& count) {
    std::int64_t bytes = 0, weighed = 0;
    for (const auto& name : samples) look_at_counter(name);
    count.compared = samples.size();
    const auto server = seen_.info.find("server_name");
    const bool is_valkey = server != seen_.info.end() && server->second == "valkey";
    for (const auto& name : std::span(samples).first(std::min(samples.size(), memory_samples))) {
      const auto size_of_one = integer_of(*line_.ask({"MEMORY USAGE", name}));
      if (!size_of_one) continue;
      bytes += *size_of_one;
      if (is_valkey) bytes += static_cast<std::int64_t>(name.size() + valkey_key_overhead);
      ++weighed;
    }
    if (weighed > 0) count.bytes_each = static_cast<double>(bytes) / static_cast<double>(weighed);
  }

  const std::shared_ptr<const Endpoint>& endpoint_;
  const RedisOptions& options_;
  const LockLayout& locks_;
  const Layout& layout_;
  const StorageLayout& tasks_;
  const Progress& progress_;
  Line line_;
  RightsTrial trial_;
  Observations seen_;
};

}  // namespace

Result<Observations> observe(const std::shared_ptr<const Endpoint>& endpoint, const LockLayout& layout,
                             const StorageLayout& tasks, const Progress& progress, const IsHere& is_here) {
  try {
    auto seen = Examination(endpoint, layout, tasks, progress, is_here).observe();
    seen.in_cluster = endpoint->servers() == Servers::cluster;
    return seen;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace holdfast::redis

namespace holdfast {

Result<std::vector<Finding>> examine_redis(const RedisOptions& options, const Progress& progress) {
  const auto kind = redis::layout_of(options);
  const auto channels = redis::channels_of(options);
  const auto layout = redis::LockLayout::make(options, channels);
  if (!layout) return layout.error();
  const auto tasks = redis::StorageLayout::make(options.task_prefix, options.db, kind, channels);
  if (!tasks) return tasks.error();
  if (!options.cluster_nodes.empty()) {
    auto cluster = options;
    cluster.layout = kind;  // the default depends on the topology, which the options of a node do not show
    return redis::examine_cluster(cluster, **layout, *tasks, progress);
  }
  const auto endpoint = redis::Endpoint::from(options, {}, redis::Servers::any);
  if (!endpoint) return endpoint.error();
  auto seen = redis::observe(*endpoint, **layout, *tasks, progress);
  if (!seen) return seen.error();
  auto judged = options;
  if (seen->sentinels.master) {
    judged.host = seen->sentinels.master->address.host;
    judged.port = seen->sentinels.master->address.port;
  }
  seen->replicas = redis::ask_replicas(judged, seen->info, {}, redis::Servers::any, **layout, *tasks);
  return redis::judge(judged, *seen);
}

}  // namespace holdfast
