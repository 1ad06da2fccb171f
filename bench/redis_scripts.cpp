// What a call costs the server: our scripts, in both layouts, against those the documents print, by the
// server's own account (INFO commandstats), in many short interleaved rounds on one redis-server. Our
// releases announce themselves. And what a lock costs in memory (INFO memory), held and idle.
//
//   redis_scripts [ROUNDS [CALLS]]

#include <algorithm>
#include <functional>
#include <holdfast/lock_types.hpp>
#include <map>

#include "redis_fixture.hpp"

namespace {

using Arguments = std::vector<std::string>;
using bench::fs::path;

/// A connection to the server that is measured.
class Subject {
 public:
  explicit Subject(int port) : raw_(port) {}

  std::string call(const Arguments& arguments) { return raw_.call({arguments.begin(), arguments.end()}); }

  /// Microseconds per call of a command, by the server's clock, over these calls. Each answer must begin so.
  double usec_per_call(const std::string& command, const std::vector<Arguments>& calls,
                       std::string_view expected) {
    call({"CONFIG", "RESETSTAT"});
    for (const auto& arguments : calls) raw_.append({arguments.begin(), arguments.end()});
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto reply = raw_.take();
      if (!reply.starts_with(expected)) throw std::runtime_error("unexpected answer: " + reply);
    }
    const auto stats = call({"INFO", "commandstats"});
    const auto line = stats.find("cmdstat_" + command + ":");
    const auto value = stats.find("usec_per_call=", line);
    if (line == std::string::npos || value == std::string::npos) throw std::runtime_error("no statistics");
    return std::strtod(stats.c_str() + value + sizeof("usec_per_call=") - 1, nullptr);
  }

 private:
  bench::Raw raw_;
};

/// One lock, under the names that both layouts give it.
struct Lock {
  std::string id = std::string(holdfast::LockId::generate().str());
  std::string user_key, lock_key, index_key, fence_key;

  Lock(const std::string& prefix, int number)
      : user_key("resource:" + std::to_string(number)),
        lock_key(prefix + ":" + user_key),
        index_key(prefix + ":id:" + id),
        fence_key(prefix + ":fence:" + lock_key) {}
};

/// A set of scripts, called in the way that is theirs.
struct Contestant {
  bool by_text = false;
  std::string prefix = "syncguard";          // as long as the others'
  std::string_view found = "{";              // how the answer to a lookup begins
  std::string_view granted = "1,";           // and that to an acquire
  std::map<std::string, std::string> names;  // script: its text, or its SHA-1

  [[nodiscard]] Arguments script(const std::string& which) const {
    return {by_text ? "EVAL" : "EVALSHA", names.at(which)};
  }
  [[nodiscard]] std::string command() const { return by_text ? "eval" : "evalsha"; }

  std::function<Arguments(const Lock&)> acquire, release, extend, lookup;
};

Arguments operator+(Arguments head, const Arguments& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

constexpr const char* ttl = "30000";
constexpr const char* tolerance = "1000";

Contestant documented(Subject& server, bool by_text) {
  Contestant all;
  all.by_text = by_text;
  for (const auto* name : {"acquire", "release_extend", "lookup"}) {
    const auto text = bench::text_of(path(HOLDFAST_DOCUMENTED_SCRIPTS) / (std::string(name) + ".lua"));
    all.names[name] = by_text ? text : server.call({"SCRIPT", "LOAD", text});
  }
  const auto acquire = all.script("acquire");
  const auto change = all.script("release_extend");
  const auto lookup = all.script("lookup");
  all.acquire = [=](const Lock& lock) {
    return acquire + Arguments{"3", lock.lock_key, lock.index_key, lock.fence_key, lock.id,
                               ttl, tolerance,     lock.lock_key,  lock.user_key};
  };
  all.release = [=](const Lock& lock) { return change + Arguments{"1", lock.index_key, lock.id, tolerance}; };
  all.extend = [=](const Lock& lock) {
    return change + Arguments{"1", lock.index_key, lock.id, tolerance, ttl};
  };
  all.lookup = [=](const Lock& lock) { return lookup + Arguments{"1", lock.index_key, lock.id, tolerance}; };
  return all;
}

/// `label`: the holder's, as a JSON field behind the key; may be empty.
Contestant ours(Subject& server, bool by_text, const std::string& label = {}) {
  Contestant all;
  all.by_text = by_text;
  for (const auto* name : {"acquire", "release", "extend", "lookup"}) {
    const auto text = bench::text_of(path(HOLDFAST_SCRIPTS) / (std::string(name) + ".lua"));
    all.names[name] = by_text ? text : server.call({"SCRIPT", "LOAD", text});
  }
  const auto acquire = all.script("acquire");
  const auto release = all.script("release");
  const auto extend = all.script("extend");
  const auto lookup = all.script("lookup");
  all.acquire = [=](const Lock& lock) {
    return acquire + Arguments{"4",
                               lock.lock_key,
                               lock.index_key,
                               lock.fence_key,
                               "syncguard:fence:syncguard:",
                               lock.id,
                               ttl,
                               '"' + lock.user_key + '"' + label,
                               "000000000000000"};
  };
  all.release = [=](const Lock& lock) {
    return release + Arguments{"2", lock.index_key, lock.lock_key, lock.id, "syncguard:wake:0:"};
  };
  all.extend = [=](const Lock& lock) {
    return extend + Arguments{"2", lock.index_key, lock.lock_key, lock.id, ttl};
  };
  // The second call of a lookup by id: the first one names the key to declare.
  all.lookup = [=](const Lock& lock) {
    return lookup + Arguments{"2", lock.index_key, lock.lock_key, lock.id};
  };
  return all;
}

/// `label`: the holder's; may be empty.
Contestant native(Subject& server, bool by_text, const std::string& label = {}) {
  Contestant all;
  all.by_text = by_text;
  all.prefix = "holdfasts";
  all.found = all.granted = "";
  for (const auto* name : {"acquire", "release_proven", "extend", "lookup"}) {
    const auto text = bench::text_of(path(HOLDFAST_SCRIPTS) / ("native_" + std::string(name) + ".lua"));
    all.names[name] = by_text ? text : server.call({"SCRIPT", "LOAD", text});
  }
  const auto acquire = all.script("acquire");
  const auto release = all.script("release_proven");  // as every guard releases
  const auto extend = all.script("extend");
  const auto lookup = all.script("lookup");
  all.acquire = [=](const Lock& lock) {
    const std::string key_size{label.empty() ? '\0' : '\x80', static_cast<char>(lock.user_key.size())};
    return acquire + Arguments{"1", lock.lock_key, lock.id, ttl, key_size + label, "000000000000000"};
  };
  all.release = [=](const Lock& lock) {
    return release + Arguments{"1", lock.lock_key, lock.id, "holdfasts:wake:0:" + lock.lock_key};
  };
  all.extend = [=](const Lock& lock) { return extend + Arguments{"1", lock.lock_key, lock.id, ttl}; };
  // By id it is one GET more, which another server may answer.
  all.lookup = [=](const Lock& lock) { return lookup + Arguments{"1", lock.lock_key}; };
  return all;
}

std::vector<Arguments> calls(const std::vector<Lock>& locks,
                             const std::function<Arguments(const Lock&)>& call) {
  std::vector<Arguments> all;
  for (const auto& lock : locks) all.push_back(call(lock));
  return all;
}

double used_memory(Subject& server) {
  const auto info = server.call({"INFO", "memory"});
  return std::strtod(info.c_str() + info.find("used_memory:") + sizeof("used_memory:") - 1, nullptr);
}

/// Bytes of one lock, held and after its release, by the memory that many of them take.
std::pair<double, double> bytes_of(Subject& server, const Contestant& who) {
  constexpr int many = 100'000;
  std::vector<Lock> locks;
  for (int i = 0; i < many; ++i) locks.emplace_back(who.prefix, 100'000 + i);
  const auto send = [&](const std::function<Arguments(const Lock&)>& call) {
    for (std::size_t at = 0; at < locks.size(); at += 1000) {
      const std::vector<Lock> some(locks.begin() + static_cast<std::ptrdiff_t>(at),
                                   locks.begin() + static_cast<std::ptrdiff_t>(at) + 1000);
      static_cast<void>(server.usec_per_call(who.command(), calls(some, call), ""));
    }
  };
  server.call({"FLUSHALL"});
  const double before = used_memory(server);
  send(who.acquire);
  const double held = used_memory(server);
  send(who.release);
  const double idle = used_memory(server);
  server.call({"FLUSHALL"});
  return {(held - before) / many, (idle - before) / many};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const int per_round = argc > 2 ? std::atoi(argv[2]) : 100;
  try {
    const bench::Server redis(26380);
    Subject server(redis.port());
    const std::vector<Contestant> contestants = {documented(server, false),
                                                 ours(server, false),
                                                 native(server, false),
                                                 documented(server, true),
                                                 ours(server, true),
                                                 ours(server, false, R"(,"holder":"alice@web-3:812 make")"),
                                                 native(server, false, "alice@web-3:812 make")};
    std::map<std::string, std::vector<std::vector<double>>> usec;  // scenario: contestant: round

    for (int round = -10; round < rounds; ++round) {  // the first ones warm up
      for (std::size_t turn = 0; turn < contestants.size(); ++turn) {
        const auto which = (turn + static_cast<std::size_t>(round + 10)) % contestants.size();
        const auto& who = contestants[which];
        std::vector<Lock> locks;
        std::vector<Lock> rivals;
        for (int i = 0; i < per_round; ++i) {
          locks.emplace_back(who.prefix, i);
          rivals.emplace_back(who.prefix, i);
        }
        const auto measure = [&](const std::string& scenario, const std::vector<Arguments>& all,
                                 std::string_view expected) {
          const double each = server.usec_per_call(who.command(), all, expected);
          auto& rows = usec[scenario];
          rows.resize(contestants.size());
          if (round >= 0) rows[which].push_back(each);
          return each;
        };
        const double acquire = measure("acquire", calls(locks, who.acquire), who.granted);
        measure("refused", calls(rivals, who.acquire), "");
        measure("extend", calls(locks, who.extend), "1,");
        measure("lookup", calls(locks, who.lookup), who.found);
        const double release = measure("release", calls(locks, who.release), "1");
        usec["pair"].resize(contestants.size());
        if (round >= 0) usec["pair"][which].push_back(acquire + release);
      }
    }

    std::printf(
        "server time per call in us, median of %d interleaved rounds of %d calls;\n"
        "times faster: median of the rounds' own ratios\n\n",
        rounds, per_round);
    std::printf("%-14s %12s %10s %14s %10s %14s %18s %16s %16s %16s\n", "", "documented", "holdfast",
                "times faster", "native", "of documented", "documented, EVAL", "holdfast, EVAL",
                "holdfast, label", "native, label");
    const auto ratio = [](const std::vector<double>& above, const std::vector<double>& below) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < above.size(); ++i) ratios.push_back(above[i] / below[i]);
      return median(std::move(ratios));
    };
    for (const auto* scenario : {"acquire", "refused", "extend", "lookup", "release", "pair"}) {
      const auto& rows = usec.at(scenario);
      std::printf("%-14s %12.2f %10.2f %13.2fx %10.2f %14.3f %18.2f %16.2f %16.2f %16.2f\n", scenario,
                  median(rows[0]), median(rows[1]), ratio(rows[0], rows[1]), median(rows[2]),
                  ratio(rows[2], rows[0]), median(rows[3]), median(rows[4]), median(rows[5]),
                  median(rows[6]));
    }
    std::printf("\nbytes of a lock, by the memory of 100,000\n");
    const auto [documented_held, documented_idle] = bytes_of(server, contestants[0]);
    const auto [native_held, native_idle] = bytes_of(server, contestants[2]);
    std::printf("%-14s %12.0f %36.0f %14.3f\n", "held", documented_held, native_held,
                native_held / documented_held);
    std::printf("%-14s %12.0f %36.0f %14.3f\n", "idle", documented_idle, native_idle,
                native_idle / documented_idle);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redis_scripts: %s\n", error.what());
    return 1;
  }
  return 0;
}
