#include "engine/redis/doctor/observations.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>

namespace holdfast::redis {

Info parse_info(std::string_view text) {
  Info fields;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || line.starts_with('#')) continue;
    const auto name = line.substr(0, colon);
    // Valkey's word for the same.
    fields.emplace(name == "server_mode" ? "redis_mode" : name, line.substr(colon + 1));
  }
  return fields;
}

namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

std::string field(const Info& info, std::string_view name) {
  const auto found = info.find(name);
  return found == info.end() ? std::string() : found->second;
}

double number(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string milliseconds_text(nanoseconds length) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.2f ms", static_cast<double>(length.count()) / 1e6);
  return text.data();
}

std::string bytes_text(double bytes) {
  constexpr std::array units{"bytes", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text.data();
}

bool is_local(const RedisOptions& options) {
  return !options.unix_socket.empty() || options.host == "localhost" || options.host == "::1" ||
         options.host.starts_with("127.");
}

/// Adds to the list of findings, topic by topic.
class Judge {
 public:
  Judge(const RedisOptions& options, const Observations& seen) : options_(options), seen_(seen) {}

  std::vector<Finding> all() && {
    connection();
    std::ranges::move(judge_sentinels(options_, seen_), std::back_inserter(findings_));
    access();
    server();
    if (info("redis_mode") == "sentinel") return std::move(findings_);  // a Sentinel has no data to check
    role();
    std::ranges::move(judge_replicas(options_, seen_), std::back_inserter(findings_));
    persistence();
    memory();
    rights();
    layout();
    scripts();
    wake_ups();
    clock();
    round_trips();
    fences();
    nested_prefixes();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string topic, std::string found, std::string advice = {}) {
    findings_.push_back({severity, std::move(topic), std::move(found), std::move(advice)});
  }
  void not_known(std::string topic, const std::string& right) {
    add(Severity::note, std::move(topic), "unknown: this user lacks the right",
        "grant " + right + " while you run the doctor; locks do not need it");
  }
  [[nodiscard]] std::string info(std::string_view name) const { return field(seen_.info, name); }
  [[nodiscard]] std::string user() const {
    if (!seen_.user.empty()) return seen_.user;
    return options_.user.empty() ? "default" : options_.user;
  }
  /// As it precedes every key: without trailing colons.
  [[nodiscard]] std::string prefix() const {
    auto text = options_.lock_prefix;
    while (text.ends_with(':')) text.pop_back();
    return text;
  }
  /// The rule to grant to the user, in the server's syntax.
  [[nodiscard]] std::string grant(const std::string& rule) const {
    return "ACL SETUSER " + user() + " " + rule;
  }

  void connection() {
    if (!options_.unix_socket.empty()) {
      return add(Severity::ok, "connection", "connected through the socket " + options_.unix_socket);
    }
    // Each finding about a node of a cluster names it.
    const auto there = seen_.in_cluster
                           ? std::string("connected")
                           : "connected to " + options_.host + ", port " + std::to_string(options_.port);
    if (options_.tls) return add(Severity::ok, "connection", there + ", with TLS, its certificate verified");
    if (is_local(options_)) return add(Severity::ok, "connection", there + ", on this machine");
    add(Severity::note, "connection",
        there + ", without TLS: all traffic, including passwords, is readable on the network",
        "use rediss:// unless you trust the network");
  }

  void access() {
    const bool anyone = options_.password.empty() && options_.user.empty();
    if (!anyone) {
      add(Severity::ok, "access", "authenticated as user " + user());
    } else if (is_local(options_)) {
      add(Severity::ok, "access", "no password, on this machine");
    } else {
      add(Severity::warning, "access",
          "no password: every client that reaches the server can acquire and break every lock",
          "create a Redis user for Holdfast (see docs/guide/redis.md)");
    }
    if (seen_.password_file_mode && (*seen_.password_file_mode & 077U) != 0) {
      std::array<char, 8> mode{};
      std::snprintf(mode.data(), mode.size(), "%04o", *seen_.password_file_mode & 0777U);
      add(Severity::warning, "access",
          "other users can read or change " + options_.password_file + " (mode " + mode.data() + ")",
          "chmod 600 " + options_.password_file);
    }
  }

  void server() {
    if (seen_.info.empty()) return not_known("server", "+info");
    const bool is_valkey = info("server_name") == "valkey";
    const auto version = info("redis_version");
    const auto name = is_valkey ? "Valkey " + info("valkey_version") : "Redis " + version;
    const auto major = number(version);  // "6.2.1" is read as 6.2
    if (info("redis_mode") == "cluster" && !seen_.in_cluster) {
      return add(Severity::problem, "server", name + " in cluster mode: locks need the whole cluster",
                 "use redis+cluster://HOST");
    }
    if (info("redis_mode") == "sentinel") {
      return add(Severity::problem, "server", "this is a Sentinel, which stores no data",
                 "use the address of the master that it watches");
    }
    if (major < 6.2) {
      return add(Severity::problem, "server", name + " is too old: locks need 6.2 (SET with PXAT)",
                 "upgrade the server");
    }
    add(Severity::ok, "server", name);
  }

  void role() {
    if (seen_.info.empty()) return not_known("role", "+info");
    if (info("role") == "slave") {
      return add(
          Severity::problem, "role",
          "a replica of " + info("master_host") + ":" + info("master_port") + ", which cannot grant locks",
          "use the master in the URL");
    }
    const auto replicas = info("connected_slaves");
    if (number(replicas) < options_.min_replicas) {
      return add(Severity::problem, "role",
                 "a master with " + (replicas.empty() ? "0" : replicas) +
                     " replica(s), but the URL asks for " + std::to_string(options_.min_replicas) +
                     " (min_replicas): no lock can be acquired",
                 "start the replicas, or lower min_replicas");
    }
    if (replicas.empty() || replicas == "0") return add(Severity::ok, "role", "a master without replicas");
    add(Severity::note, "role",
        "a master with " + replicas +
            " replica(s): replication is asynchronous, so a failover may lose the " +
            (options_.sentinels.empty() && !seen_.in_cluster ? "newest locks and fences"
                                                             : "newest locks (fences stay in order)"),
        "after a failover, wait for the longest ttl before trusting new locks; see docs/operating/redis.md");
  }

  void persistence() {
    if (seen_.info.empty()) return not_known("persistence", "+info");
    if (info("aof_last_write_status") == "err" || info("rdb_last_bgsave_status") == "err") {
      add(Severity::problem, "persistence", "the last attempt to save failed",
          "check the server's log and disk");
    }
    constexpr auto advice = "CONFIG SET appendonly yes, and the same in redis.conf";
    if (info("aof_enabled") == "1") {
      const auto sync = seen_.appendfsync.value_or("");
      if (sync == "always") {
        add(Severity::ok, "persistence", "append-only file, synced with every write");
      } else if (sync == "no") {
        add(Severity::warning, "persistence",
            "append-only file, synced at the kernel's choice: a power failure loses the newest fences",
            "CONFIG SET appendfsync everysec, or always");
      } else {
        add(Severity::note, "persistence",
            "append-only file" + std::string(sync == "everysec" ? ", synced every second" : "") +
                ": a crash of the server loses nothing, a power failure may lose the fences of the last "
                "second",
            "CONFIG SET appendfsync always, if you cannot accept that");
      }
      return;
    }
    if (!seen_.save) {
      return add(Severity::warning, "persistence",
                 "no append-only file: a crash loses held locks and fences (this user lacks the right to "
                 "check for snapshots)",
                 advice);
    }
    if (!seen_.save->empty()) {
      return add(Severity::warning, "persistence",
                 "snapshots only (save " + *seen_.save +
                     "): a crash loses the locks and fences since the last snapshot, and fences repeat",
                 advice);
    }
    add(Severity::problem, "persistence",
        "off: a restart loses every lock and every fence counter; fences start again at 1, below those "
        "already seen",
        advice);
  }

  void memory() {
    if (seen_.info.empty()) return not_known("memory", "+info");
    const auto limit = number(info("maxmemory")), used = number(info("used_memory"));
    const auto policy = info("maxmemory_policy");
    const bool evicts = !policy.empty() && policy != "noeviction";
    constexpr auto advice = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
    if (evicts && limit == 0) {
      return add(Severity::note, "memory",
                 "no maxmemory limit; with a limit, the policy " + policy + " would evict locks", advice);
    }
    if (evicts) {
      const bool fences_too = policy.starts_with("allkeys");
      return add(Severity::problem, "memory",
                 "maxmemory-policy " + policy + ": when memory is full, held locks" +
                     (fences_too ? " and fence counters" : "") +
                     " are evicted, and two processes can hold the same lock",
                 advice);
    }
    if (limit == 0) return add(Severity::ok, "memory", bytes_text(used) + " used, no limit, no eviction");
    const auto state = bytes_text(used) + " of " + bytes_text(limit) + " used, no eviction";
    if (used < 0.9 * limit) return add(Severity::ok, "memory", state);
    add(Severity::warning, "memory", state + ": no lock can be acquired when memory is full",
        "raise maxmemory, or free some memory");
  }

  /// Another finding reports the server or its role as the problem; the right is not.
  static bool is_told_elsewhere(std::string_view failure) {
    return failure.starts_with("READONLY") || failure.starts_with("MOVED") ||
           failure.starts_with("CLUSTERDOWN");
  }

  void rights() {
    const auto gaps = missing_rights(options_, seen_);
    for (const auto& gap : gaps) {
      add(gap.severity, "rights", "user " + user() + " " + gap.what + ": " + gap.lost, grant(gap.rule));
    }
    if (gaps.size() > 1) {
      add(Severity::note, "rights", std::to_string(gaps.size()) + " rights are missing in all",
          "`holdfast doctor --acl` prints one line that grants all of them");
    }
    std::map<std::string_view, std::string> failing;  // the server's error, by command
    for (const auto& right : seen_.rights) {
      if (right.failure.empty() || is_told_elsewhere(right.failure)) continue;
      auto& commands = failing[right.failure];
      if (!commands.ends_with(right.command)) commands += (commands.empty() ? "" : ", ") + right.command;
    }
    for (const auto& [failure, commands] : failing) {
      add(Severity::problem, "rights", std::string(failure) + " (reply to " + commands + ")",
          "see what the server's log says");
    }
    if (gaps.empty() && failing.empty())
      add(Severity::ok, "rights", "user " + user() + " has all rights that locks and tasks need");
  }

  void layout() {
    const bool is_native = layout_of(options_) == RedisLayout::native;
    if (seen_.other_layout) {
      add(Severity::problem, "layout",
          "the lock prefix " + prefix() + " is used with layout=" + (is_native ? "documented" : "native") +
              "; locks cannot be acquired",
          "use that layout in the URL, or another lock_prefix");
    }
    const auto counters = seen_.documented_counters;
    if (is_native && counters > 0 && !seen_.other_layout) {
      add(Severity::problem, "layout",
          "SyncGuard uses the lock prefix " + prefix() + " too: " + std::to_string(counters) +
              (counters == 1 ? " fence counter" : " fence counters") +
              " of its layout found. layout=native has other counters, and no process of one layout can "
              "acquire a key "
              "that the other one uses",
          "use layout=documented, or another lock_prefix");
    }
    const bool tasks_are_native = seen_.task_layout == "native";
    const bool other_tasks = !seen_.task_layout.empty() && tasks_are_native != is_native;
    if (other_tasks) {
      add(Severity::problem, "layout",
          "the task prefix " + options_.task_prefix + " is used with layout=" +
              (tasks_are_native ? "native" : "documented") + "; tasks cannot be used",
          "use that layout in the URL, or another task_prefix");
    }
    if (is_native && !seen_.other_layout && !other_tasks && counters == 0) {
      add(Severity::ok, "layout",
          "native: one key per lock; SyncGuard and pmcp-tasks cannot share this store");
    }
  }

  void scripts() {
    const auto& failure = seen_.script_failure;
    // Locks and tasks may be at different masters.
    if (failure.empty() || (seen_.in_cluster && failure.starts_with("MOVED"))) {
      return add(Severity::ok, "scripts", "scripts run, and are resent to a server that lost them");
    }
    const bool is_told = is_told_elsewhere(failure) || !missing_rights(options_, seen_).empty();
    add(Severity::problem, "scripts", "scripts do not run: " + failure,
        is_told ? "see above: the server or the rights of the user are the cause"
                : "see what the server's log says");
  }

  void wake_ups() {
    if (!seen_.message_reached) {
      return add(Severity::note, "wake-ups",
                 "not available with this user's rights: waiters poll, at least every second");
    }
    if (*seen_.message_reached > 0)
      return add(Severity::ok, "wake-ups", "a release wakes waiting processes at once");
    add(Severity::warning, "wake-ups", "a message to our own subscription did not arrive: waiters poll",
        "a proxy may drop Pub/Sub messages; connect to the server directly");
  }

  void clock() {
    if (!seen_.clock_ahead) {
      return add(Severity::note, "clock", "unknown: the server does not return its time");
    }
    const auto off = std::chrono::abs(*seen_.clock_ahead);
    const auto text = milliseconds_text(off) + " " +
                      (*seen_.clock_ahead < microseconds::zero() ? "behind" : "ahead of") +
                      " this machine's, +/- " + milliseconds_text(seen_.clock_uncertainty);
    if (off <= std::chrono::seconds(1) + seen_.clock_uncertainty) {
      return add(Severity::ok, "clock", "the server's clock is " + text);
    }
    add(Severity::warning, "clock",
        "the server's clock is " + text +
            ". Leases run on the server's clock only, so they are correct; but times shown here look wrong. "
            "Correcting that clock in one step, or by more than 1000 ppm (chrony: set maxslewrate 500), "
            "shortens or prolongs every lease",
        "synchronise both machines with a time service that adjusts gradually (chrony, ntpd)");
  }

  void round_trips() {
    if (seen_.round_trips.empty()) return add(Severity::note, "round trips", "not measured");
    auto sorted = seen_.round_trips;
    std::ranges::sort(sorted);
    const auto median = sorted[sorted.size() / 2];
    const auto text = "min " + milliseconds_text(sorted.front()) + ", median " + milliseconds_text(median) +
                      ", max " + milliseconds_text(sorted.back()) + " of " + std::to_string(sorted.size());
    if (median < std::chrono::milliseconds(50)) return add(Severity::ok, "round trips", text);
    add(Severity::note, "round trips", text + ": high latency, so acquiring and releasing a lock is slow",
        "use longer ttls (a minute), and a nearby server if possible");
  }

  void fences() {
    if (const auto& held = seen_.held; held.above_counter > 0) {
      add(Severity::problem, "fences",
          std::to_string(held.above_counter) + " of " + std::to_string(held.checked) +
              " held locks that were checked have a fence above the counter of their key: the server lost "
              "writes, and the next grant may repeat a fence",
          "see docs/operating/lost-data.md; fence_floor=clock in the URL prevents most repetitions");
    }
    if (!seen_.fences) {
      return not_known("fences", "+scan +dbsize");
    }
    const auto& seen = *seen_.fences;
    const bool all = seen.is_complete();
    const auto counters = seen.in_all();
    if (counters < 1) {
      return add(Severity::ok, "fences",
                 "no fence counter begins with " + prefix() + ":" +
                     (seen_.has_authority ? "" : "; no lock was ever acquired here"));
    }
    std::array<char, 32> count{};
    std::snprintf(count.data(), count.size(), "%.0f", counters);
    auto text = std::string(all ? "" : "about ") + count.data() + " fence counter(s)";
    const auto bytes = counters * seen.bytes_each;
    if (bytes > 0) {
      text += ", " + bytes_text(bytes) + " (" + bytes_text(seen.bytes_each) + " each)";
    }
    text += "; counters of tasks expire after the task, the others are kept forever";
    const auto limit = number(info("maxmemory"));
    const auto* advice = "use fewer lock keys: one per kind of work, not one per job";
    if (limit > 0 && bytes > 0.1 * limit)
      return add(Severity::warning, "fences", text + ", more than a tenth of maxmemory", advice);
    if (bytes > 100e6) return add(Severity::note, "fences", text, advice);
    add(Severity::ok, "fences", text);
  }

  void nested_prefixes() {
    const auto own = prefix();
    if (seen_.nested_prefixes.empty()) {
      if (!seen_.prefixes_known) return not_known("prefixes", "+scan");
      return add(Severity::ok, "prefixes",
                 "no other lock prefix in use contains " + shown(own) + " or is contained in it");
    }
    constexpr std::size_t most_named = 5;
    std::size_t named = 0;
    for (const auto& other : seen_.nested_prefixes) {
      if (++named > most_named) break;
      const auto& outer = other.size() < own.size() ? other : own;
      const auto& inner = other.size() < own.size() ? own : other;
      const auto rest = inner.substr(outer.empty() ? 0 : outer.size() + 1);
      add(Severity::warning, "prefixes",
          "the lock prefix " + shown(other) + " is in use too: the key " + rest + ":x under " + shown(outer) +
              " and the key x under " + shown(inner) + " are one lock",
          "choose lock prefixes such that none starts with another one and a colon");
    }
    if (named > most_named) {
      add(Severity::warning, "prefixes",
          "and " + std::to_string(seen_.nested_prefixes.size() - most_named) + " more nested lock prefixes",
          "see docs/guide/redis.md, \"Prefixes\"");
    }
  }
  static std::string shown(const std::string& prefix) { return prefix.empty() ? "\"\" (empty)" : prefix; }

  const RedisOptions& options_;
  const Observations& seen_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> judge(const RedisOptions& options, const Observations& seen) {
  return Judge(options, seen).all();
}

}  // namespace holdfast::redis
