// What a call costs the server: our scripts against those the documents print, by the server's own account
// (INFO commandstats), in interleaved rounds on one redis-server. Announcements of releases are included.

#include <hiredis/hiredis.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <holdfast/lock_types.hpp>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Arguments = std::vector<std::string>;
namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A redis-server of our own on a Unix socket, and one connection to it.
class Server {
 public:
  Server() {
    std::string name = (fs::temp_directory_path() / "holdfast-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    dir_ = name;
    const std::string socket = (dir_ / "socket").string();
    pid_ = fork();
    if (pid_ == 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
      execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket.c_str(), "--save", "",
             "--appendonly", "no", "--dir", dir_.c_str(), nullptr);
      _exit(127);
    }
    for (int attempt = 0; attempt < 200; ++attempt) {
      connection_ = redisConnectUnix(socket.c_str());
      if (connection_ != nullptr && connection_->err == 0) return;
      redisFree(connection_);
      connection_ = nullptr;
      usleep(10'000);
    }
    throw std::runtime_error("redis-server does not start; is it installed?");
  }
  ~Server() {
    redisFree(connection_);
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void send(const Arguments& arguments) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto& argument : arguments) {
      texts.push_back(argument.data());
      sizes.push_back(argument.size());
    }
    redisAppendCommandArgv(connection_, static_cast<int>(arguments.size()), texts.data(), sizes.data());
  }

  /// The reply as text: an array's elements with commas.
  std::string receive() {
    void* raw = nullptr;
    if (redisGetReply(connection_, &raw) != REDIS_OK) throw std::runtime_error(connection_->errstr);
    auto* reply = static_cast<redisReply*>(raw);
    const std::string text = to_text(*reply);
    const bool failed = reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (failed) throw std::runtime_error(text);
    return text;
  }

  std::string call(const Arguments& arguments) {
    send(arguments);
    return receive();
  }

  /// Microseconds per call of a command since the last look.
  double take_usec_per_call(std::string_view command) {
    const auto stats = call({"INFO", "commandstats"});
    call({"CONFIG", "RESETSTAT"});
    const auto line = stats.find("cmdstat_" + std::string(command) + ":");
    const auto value = stats.find("usec_per_call=", line);
    if (line == std::string::npos || value == std::string::npos) throw std::runtime_error("no statistics");
    return std::strtod(stats.c_str() + value + sizeof("usec_per_call=") - 1, nullptr);
  }

 private:
  static std::string to_text(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_INTEGER) return std::to_string(reply.integer);
    if (reply.type == REDIS_REPLY_NIL) return "nil";
    if (reply.type != REDIS_REPLY_ARRAY) return {reply.str, static_cast<std::size_t>(reply.len)};
    std::string all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(reply.elements); ++i) {
      all += (i == 0 ? "" : ",") + to_text(*reply.element[i]);
    }
    return all;
  }

  fs::path dir_;
  pid_t pid_ = -1;
  redisContext* connection_ = nullptr;
};

/// One lock, under the names that both layouts give it.
struct Lock {
  std::string id = std::string(holdfast::LockId::generate().str());
  std::string user_key, lock_key, index_key, fence_key;

  explicit Lock(int number)
      : user_key("resource:" + std::to_string(number)),
        lock_key("syncguard:" + user_key),
        index_key("syncguard:id:" + id),
        fence_key("syncguard:fence:" + lock_key) {}
};

/// A set of scripts, called in the way that is theirs.
struct Contestant {
  std::string name;
  bool by_text = false;
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

Contestant documented(Server& server, bool by_text) {
  Contestant all{.name = by_text ? "documented, EVAL" : "documented", .by_text = by_text, .names = {}};
  for (const auto* name : {"acquire", "release_extend", "lookup"}) {
    const auto text = text_of(fs::path(HOLDFAST_DOCUMENTED_SCRIPTS) / (std::string(name) + ".lua"));
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

Contestant ours(Server& server, bool by_text) {
  Contestant all{.name = by_text ? "holdfast, EVAL" : "holdfast", .by_text = by_text};
  for (const auto* name : {"acquire", "release", "extend", "lookup"}) {
    const auto text = text_of(fs::path(HOLDFAST_SCRIPTS) / (std::string(name) + ".lua"));
    all.names[name] = by_text ? text : server.call({"SCRIPT", "LOAD", text});
  }
  const auto acquire = all.script("acquire");
  const auto release = all.script("release");
  const auto extend = all.script("extend");
  const auto lookup = all.script("lookup");
  all.acquire = [=](const Lock& lock) {
    return acquire + Arguments{"3",     lock.lock_key, lock.index_key,           lock.fence_key,
                               lock.id, ttl,           '"' + lock.user_key + '"'};
  };
  all.release = [=](const Lock& lock) {
    return release + Arguments{"2", lock.index_key, lock.lock_key, lock.id, "syncguard:wake:0:"};
  };
  all.extend = [=](const Lock& lock) {
    return extend + Arguments{"2", lock.index_key, lock.lock_key, lock.id, ttl};
  };
  all.lookup = [=](const Lock& lock) { return lookup + Arguments{"1", lock.index_key, lock.id}; };
  return all;
}

/// Sends all, in batches, and checks that every answer begins as expected.
void run(Server& server, const std::vector<Arguments>& calls, std::string_view expected) {
  constexpr std::size_t batch = 200;
  for (std::size_t begin = 0; begin < calls.size(); begin += batch) {
    const auto end = std::min(begin + batch, calls.size());
    for (auto i = begin; i < end; ++i) server.send(calls[i]);
    for (auto i = begin; i < end; ++i) {
      const auto reply = server.receive();
      if (!reply.starts_with(expected)) throw std::runtime_error("unexpected answer: " + reply);
    }
  }
}

std::vector<Arguments> calls(const std::vector<Lock>& locks,
                             const std::function<Arguments(const Lock&)>& call) {
  std::vector<Arguments> all;
  for (const auto& lock : locks) all.push_back(call(lock));
  return all;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  const int per_round = argc > 2 ? std::atoi(argv[2]) : 5000;
  try {
    Server server;
    const std::vector<Contestant> contestants = {documented(server, false), ours(server, false),
                                                 documented(server, true), ours(server, true)};
    const std::vector<std::string> scenarios = {"acquire", "refused", "extend", "lookup by id", "release"};
    std::map<std::string, std::map<std::string, std::vector<double>>> usec;  // scenario, contestant

    for (int round = -1; round < rounds; ++round) {  // the first warms up
      for (const auto& who : contestants) {
        std::vector<Lock> locks;
        std::vector<Lock> rivals;
        for (int i = 0; i < per_round; ++i) {
          locks.emplace_back(i);
          rivals.emplace_back(i);
        }
        const auto measure = [&](const std::string& scenario, const std::vector<Arguments>& all,
                                 std::string_view expected) {
          static_cast<void>(server.call({"CONFIG", "RESETSTAT"}));
          run(server, all, expected);
          const double each = server.take_usec_per_call(who.command());
          if (round >= 0) usec[scenario][who.name].push_back(each);
        };
        measure("acquire", calls(locks, who.acquire), "1,");
        measure("refused", calls(rivals, who.acquire), "0");
        measure("extend", calls(locks, who.extend), "1,");
        measure("lookup by id", calls(locks, who.lookup), "{");
        measure("release", calls(locks, who.release), "1");
      }
    }

    std::printf("server time per call in us, median of %d interleaved rounds of %d calls\n", rounds,
                per_round);
    std::printf("%-14s %12s %12s %8s %18s %16s\n", "", "documented", "holdfast", "ratio", "documented, EVAL",
                "holdfast, EVAL");
    const auto print = [&](const std::string& title, const std::vector<std::string>& parts) {
      std::vector<double> sums;
      for (const auto& who : contestants) {
        double sum = 0;
        for (const auto& part : parts) sum += median(usec[part][who.name]);
        sums.push_back(sum);
      }
      std::printf("%-14s %12.2f %12.2f %7.2fx %18.2f %16.2f\n", title.c_str(), sums[0], sums[1],
                  sums[0] / sums[1], sums[2], sums[3]);
    };
    for (const auto& scenario : scenarios) print(scenario, {scenario});
    print("pair", {"acquire", "release"});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redis_scripts: %s\n", error.what());
    return 1;
  }
  return 0;
}
