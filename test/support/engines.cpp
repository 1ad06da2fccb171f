#include "support/engines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <holdfast/memory.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <stdexcept>
#include <thread>

#include "engine/sqlite/backends.hpp"
#include "support/acl_user.hpp"
#include "support/asio_backend.hpp"
#include "support/instrumented.hpp"
#include "support/peer.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_sentinels.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"
#include "support/times.hpp"
#include "support/troubled_redis.hpp"

namespace holdfast::test {
namespace {

using std::chrono::milliseconds;

template <class Backend>
constexpr bool stores_tasks = std::same_as<Backend, StorageBackend>;

template <class Backend>
std::shared_ptr<Backend> make_memory(const MemoryOptions& options = {}) {
  if constexpr (stores_tasks<Backend>) {
    return make_memory_storage_backend(options);
  } else {
    return make_memory_lock_backend(options);
  }
}

template <class Backend>
std::shared_ptr<Backend> make_sqlite(const std::filesystem::path& file) {
  if constexpr (stores_tasks<Backend>) {
    return make_sqlite_storage_backend(file).value_or_throw();
  } else {
    return make_sqlite_lock_backend(file).value_or_throw();
  }
}

template <class Backend>
Result<std::shared_ptr<Backend>> make_redis(const RedisOptions& options) {
  if constexpr (stores_tasks<Backend>) {
    return make_redis_storage_backend(options);
  } else {
    return make_redis_lock_backend(options);
  }
}

template <class Backend>
class MemoryWorld final : public WorldOf<Backend> {
 public:
  std::shared_ptr<Backend> open() override { return backend_; }

 private:
  std::shared_ptr<Backend> backend_ = make_memory<Backend>();
};

template <class Backend>
class SqliteWorld final : public WorldOf<Backend> {
 public:
  std::shared_ptr<Backend> open() override { return make_sqlite<Backend>(dir_ / "holdfast.db"); }

 private:
  TempDir dir_;
};

/// Every client except the first runs in a separate process.
class SqliteProcessesWorld final : public LockWorld {
 public:
  std::shared_ptr<LockBackend> open() override {
    const auto file = dir_ / "holdfast.db";
    if (!std::filesystem::exists(file)) return make_sqlite<LockBackend>(file);
    return open_in_another_process("sqlite:" + file.string());
  }

 private:
  TempDir dir_;
};

/// Time passes only when the test says so: edges can be tested to the millisecond, and waiting costs nothing.
class HandClock {
 public:
  void set(std::int64_t ms) { ms_ = ms; }
  [[nodiscard]] std::int64_t read() const { return ms_; }

 private:
  std::atomic<std::int64_t> ms_{1'700'000'000'000};
};

class MemoryHandClockWorld final : public StorageWorld {
 public:
  std::shared_ptr<StorageBackend> open() override { return backend_; }
  void reach(std::int64_t ms) override { clock_.set(ms); }

 private:
  HandClock clock_;
  std::shared_ptr<StorageBackend> backend_ = make_memory_storage_backend(
      {.clock = [](void* clock) { return from_ms(static_cast<HandClock*>(clock)->read()); },
       .clock_context = &clock_});
};

class SqliteHandClockWorld final : public StorageWorld {
 public:
  std::shared_ptr<StorageBackend> open() override {
    const auto read = [this] { return clock_.read(); };
    return sqlite::open_storage_backend(dir_ / "holdfast.db", {}, {},
                                        {.boot_ms = read, .wall_ms = read, .identity = {"boot", 1}})
        .value_or_throw();
  }
  void reach(std::int64_t ms) override { clock_.set(ms); }

 private:
  TempDir dir_;
  HandClock clock_;
};

/// A server that one test uses at a time, and the next one when it is empty again: starting one for each test
/// was 28 % of the processor time of redis_tcp.
class LentServer {
 public:
  explicit LentServer(bool tls) : idle_(tls ? idle_with_tls() : idle_plain()) {
    if (idle_.empty()) {
      server_ = std::make_unique<RedisServer>(RedisServer::Options{.tls = tls});
    } else {
      server_ = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  ~LentServer() {
    try {
      auto raw = server_->raw();
      raw.text({"FLUSHALL", "SYNC"});
      raw.text({"SCRIPT", "FLUSH", "SYNC"});
      idle_.push_back(std::move(server_));
    } catch (const std::exception& error) {
      ADD_FAILURE() << "the test's Redis server cannot be emptied: " << error.what();
    }
  }
  LentServer(const LentServer&) = delete;
  LentServer& operator=(const LentServer&) = delete;

  [[nodiscard]] const RedisServer& operator*() const { return *server_; }

 private:
  // Tests begin and end on the main thread, which the servers die with.
  using Servers = std::vector<std::unique_ptr<RedisServer>>;
  static Servers& idle_plain() {
    static Servers servers;
    return servers;
  }
  static Servers& idle_with_tls() {
    static Servers servers;
    return servers;
  }

  Servers& idle_;
  std::unique_ptr<RedisServer> server_;
};

/// An empty server for each test; each client has its own connections. The prefix is the test's own too: a
/// client that outlives its test must not write into the next one's data.
template <class Backend>
class RedisWorld final : public WorldOf<Backend> {
 public:
  using Way = RedisOptions (RedisServer::*)() const;
  RedisWorld(Way way, bool tls, RedisLayout layout = RedisLayout::documented)
      : server_(tls), way_(way), layout_(layout) {}

  std::shared_ptr<Backend> open() override {
    auto options = ((*server_).*way_)();
    options.lock_prefix = options.task_prefix = prefix_;
    options.layout = layout_;
    return make_redis<Backend>(options).value_or_throw();
  }

 private:
  LentServer server_;
  Way way_;
  RedisLayout layout_;
  std::string prefix_ = private_prefix();
};

/// Over a Unix socket, as a user with exactly the rights that `doctor --acl` prints. A refused command fails
/// the test, even if Holdfast tolerates the refusal; so each test has a new server, where only it is refused
/// one.
template <class Backend>
class RedisUserWorld final : public WorldOf<Backend> {
 public:
  RedisUserWorld() {
    options_.lock_prefix = "contract";
    options_.task_prefix = "contract-tasks";
    options_ = acl_user(server_, options_);
  }
  ~RedisUserWorld() override { EXPECT_EQ(acl_refusals(server_), ""); }

  std::shared_ptr<Backend> open() override { return make_redis<Backend>(options_).value_or_throw(); }

 private:
  RedisServer server_;
  RedisOptions options_ = server_.unix_socket();
};

/// One set of servers for all tests of a process, each with a prefix of its own: it takes a second to start.
template <class Backend>
class RedisSentinelWorld final : public WorldOf<Backend> {
 public:
  std::shared_ptr<Backend> open() override {
    static const RedisSentinels servers;
    auto options = servers.client();
    options.lock_prefix = options.task_prefix = prefix_;
    return make_redis<Backend>(options).value_or_throw();
  }

 private:
  std::string prefix_ = private_prefix();
};

/// The same of a cluster, which takes as long. The documented layout needs a hash tag there.
template <class Backend>
class RedisClusterWorld final : public WorldOf<Backend> {
 public:
  explicit RedisClusterWorld(RedisLayout layout) : layout_(layout) {}

  std::shared_ptr<Backend> open() override {
    static RedisCluster cluster;
    auto options = cluster.options();
    options.layout = layout_;
    options.lock_prefix = options.task_prefix = prefix_;
    return make_redis<Backend>(options).value_or_throw();
  }

 private:
  RedisLayout layout_;
  std::string prefix_ = layout_ == RedisLayout::documented ? "{" + private_prefix() + "}" : private_prefix();
};

template <class Backend>
class TroubledRedisWorld final : public WorldOf<Backend> {
 public:
  TroubledRedisWorld(RedisServer::Options options, TroubledRedis::Trouble trouble, milliseconds every)
      : redis_(std::move(options), trouble, every) {}

  std::shared_ptr<Backend> open() override {
    auto options = redis_.tcp();
    // On a loaded machine a server may need seconds to start, and be unreachable for that time.
    options.command_timeout = std::chrono::seconds(30);
    for (;;) {  // opening, unlike later operations, does not retry
      if (auto made = make_redis<Backend>(options)) return *std::move(made);
    }
  }

 private:
  TroubledRedis redis_;
};

/// Another engine's world, with every instrument attached.
template <class Backend>
class TelemetryWorld final : public WorldOf<Backend> {
 public:
  explicit TelemetryWorld(std::unique_ptr<WorldOf<Backend>> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<Backend> open() override { return with_observer(inner_->open(), observer_); }
  void reach(std::int64_t ms) override { inner_->reach(ms); }

 private:
  std::shared_ptr<Observer> observer_ = all_instruments();
  std::unique_ptr<WorldOf<Backend>> inner_;
};

/// Another engine's world, all of whose clients are called through Asio.
template <class Backend>
class AsioWorld final : public WorldOf<Backend> {
 public:
  explicit AsioWorld(std::unique_ptr<WorldOf<Backend>> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<Backend> open() override { return through_asio(inner_->open()); }
  void reach(std::int64_t ms) override { inner_->reach(ms); }

 private:
  std::unique_ptr<WorldOf<Backend>> inner_;
};

template <template <class> class Wrapper, class Backend>
EngineOf<Backend> wrapped(EngineOf<Backend> engine, std::string name) {
  engine.name = std::move(name);
  engine.make_world = [inner = std::move(engine.make_world)] {
    return std::make_unique<Wrapper<Backend>>(inner());
  };
  return engine;
}

template <template <class> class World, class Backend, class... Arguments>
EngineOf<Backend> redis_engine(std::string name, Arguments... arguments) {
  return {.name = std::move(name),
          .make_world = [arguments...] { return std::make_unique<World<Backend>>(arguments...); },
          .missing = redis_missing,
          .reserves_names = true,
          .cleans_up_by_itself = true,
          .has_queues = true};
}

template <class Backend>
EngineOf<Backend> troubled_redis_engine(std::string name, const RedisServer::Options& options,
                                        TroubledRedis::Trouble trouble, milliseconds every) {
  return {.name = std::move(name),
          .make_world =
              [options, trouble, every] {
                return std::make_unique<TroubledRedisWorld<Backend>>(options, trouble, every);
              },
          .missing = redis_missing,
          .reserves_names = true,
          .cleans_up_by_itself = true,
          .asks_again = true,
          .has_queues = true};
}

/// The variants for both locks and tasks.
template <class Backend>
std::vector<EngineOf<Backend>> common_engines() {
  using Variant = EngineOf<Backend>;
  const Variant memory{.name = "memory",
                       .make_world = [] { return std::make_unique<MemoryWorld<Backend>>(); },
                       .has_queues = true};
  const Variant sqlite{.name = "sqlite",
                       .make_world = [] { return std::make_unique<SqliteWorld<Backend>>(); },
                       .has_queues = true};
  const Variant redis = redis_engine<RedisWorld, Backend>("redis_tcp", &RedisServer::tcp, false);
  return {
      memory,
      sqlite,
      redis,
      redis_engine<RedisWorld, Backend>("redis_native", &RedisServer::tcp, false, RedisLayout::native),
      redis_engine<RedisUserWorld, Backend>("redis_unix"),
      redis_engine<RedisWorld, Backend>("redis_tls", &RedisServer::tls, true),
      redis_engine<RedisSentinelWorld, Backend>("redis_sentinel"),
      redis_engine<RedisClusterWorld, Backend>("redis_cluster", RedisLayout::documented),
      redis_engine<RedisClusterWorld, Backend>("redis_cluster_native", RedisLayout::native),
      troubled_redis_engine<Backend>("redis_disturbed", {}, TroubledRedis::disturb, milliseconds(3)),
      troubled_redis_engine<Backend>("redis_restarting", {.persistent = true}, TroubledRedis::restart,
                                     milliseconds(150)),
      wrapped<TelemetryWorld>(memory, "memory_telemetry"),
      wrapped<TelemetryWorld>(sqlite, "sqlite_telemetry"),
      wrapped<TelemetryWorld>(redis, "redis_telemetry"),
      wrapped<AsioWorld>(memory, "memory_asio"),
      wrapped<AsioWorld>(sqlite, "sqlite_asio"),
      wrapped<AsioWorld>(redis, "redis_asio"),
  };
}

template <class Engine>
std::vector<Engine> named(const std::vector<Engine>& all, std::initializer_list<std::string_view> names) {
  std::vector<Engine> found;
  for (const auto name : names) {
    const auto at = std::ranges::find(all, name, &Engine::name);
    if (at == all.end()) throw std::logic_error("there is no engine " + std::string(name));
    found.push_back(*at);
  }
  return found;
}

}  // namespace

template <class Backend>
void WorldOf<Backend>::reach(std::int64_t ms) {
  if constexpr (stores_tasks<Backend>) {
    constexpr std::int64_t clock_difference_ms = 25;
    const auto backend = open();
    while (now_ms(*backend) < ms + clock_difference_ms) std::this_thread::sleep_for(milliseconds(2));
  } else {
    throw std::logic_error("locks have no clock to ask");
  }
}
template class WorldOf<LockBackend>;
template class WorldOf<StorageBackend>;

std::vector<LockEngine> lock_engines() {
  auto all = common_engines<LockBackend>();
  all.push_back(
      {.name = "sqlite_processes", .make_world = [] { return std::make_unique<SqliteProcessesWorld>(); }});
  return all;
}

std::vector<StorageEngine> storage_engines() {
  auto all = common_engines<StorageBackend>();
  all.push_back({.name = "memory_hand_clock",
                 .make_world = [] { return std::make_unique<MemoryHandClockWorld>(); },
                 .hand_clock = true,
                 .has_queues = true});
  return all;
}

std::vector<StorageEngine> queue_engines() {
  auto engines = storage_engines();
  engines.push_back(storage_engines({"sqlite_hand_clock"}).front());
  std::erase_if(engines, [](const StorageEngine& engine) { return !engine.has_queues; });
  return engines;
}

std::vector<LockEngine> lock_engines(std::initializer_list<std::string_view> names) {
  return named(lock_engines(), names);
}
std::vector<StorageEngine> storage_engines(std::initializer_list<std::string_view> names) {
  auto all = storage_engines();
  // Only for what depends on the time: anything else is the same as on "sqlite".
  all.push_back({.name = "sqlite_hand_clock",
                 .make_world = [] { return std::make_unique<SqliteHandClockWorld>(); },
                 .hand_clock = true,
                 .has_queues = true});
  return named(all, names);
}

}  // namespace holdfast::test
