#include "support/engines.hpp"

#include <holdfast/memory.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <ostream>

#include "support/asio_backend.hpp"
#include "support/instrumented.hpp"
#include "support/peer.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"
#include "support/troubled_redis.hpp"

namespace holdfast::test {
namespace {

using std::chrono::milliseconds;

class MemoryWorld final : public World {
 public:
  std::shared_ptr<LockBackend> open() override { return backend_; }

 private:
  std::shared_ptr<LockBackend> backend_ = make_memory_lock_backend();
};

class SqliteWorld final : public World {
 public:
  std::shared_ptr<LockBackend> open() override {
    return make_sqlite_lock_backend(dir_ / "holdfast.db").value_or_throw();
  }

 private:
  TempDir dir_;
};

/// Every client but the first is in a process of its own.
class SqliteProcessesWorld final : public World {
 public:
  std::shared_ptr<LockBackend> open() override {
    const auto file = dir_ / "holdfast.db";
    if (!std::filesystem::exists(file)) return make_sqlite_lock_backend(file).value_or_throw();
    return open_in_another_process("sqlite:" + file.string());
  }

 private:
  TempDir dir_;
};

/// A server for each test, so that nothing of another is seen; each client has connections of its own.
class RedisWorld final : public World {
 public:
  using Way = RedisOptions (RedisServer::*)() const;
  RedisWorld(Way way, bool tls) : server_({.tls = tls}), way_(way) {}

  std::shared_ptr<LockBackend> open() override {
    auto options = (server_.*way_)();
    options.lock_prefix = "contract";
    return make_redis_lock_backend(options).value_or_throw();
  }

 private:
  RedisServer server_;
  Way way_;
};

class TroubledRedisWorld final : public World {
 public:
  TroubledRedisWorld(RedisServer::Options options, TroubledRedis::Trouble trouble, milliseconds every)
      : redis_(std::move(options), trouble, every) {}

  std::shared_ptr<LockBackend> open() override {
    for (;;) {  // opening, unlike what follows, does not try again
      if (auto made = make_redis_lock_backend(redis_.tcp())) return *std::move(made);
    }
  }

 private:
  TroubledRedis redis_;
};

/// Another engine's world, with every instrument attached.
class TelemetryWorld final : public World {
 public:
  explicit TelemetryWorld(std::unique_ptr<World> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<LockBackend> open() override { return with_observer(inner_->open(), observer_); }

 private:
  std::shared_ptr<Observer> observer_ = all_instruments();
  std::unique_ptr<World> inner_;
};

Engine with_telemetry(Engine engine, std::string name) {
  engine.name = std::move(name);
  engine.make_world = [inner = std::move(engine.make_world)] {
    return std::make_unique<TelemetryWorld>(inner());
  };
  return engine;
}

/// Another engine's world, every client of which is asked through Asio.
class AsioWorld final : public World {
 public:
  explicit AsioWorld(std::unique_ptr<World> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<LockBackend> open() override { return through_asio(inner_->open()); }

 private:
  std::unique_ptr<World> inner_;
};

Engine with_asio(Engine engine, std::string name) {
  engine.name = std::move(name);
  engine.make_world = [inner = std::move(engine.make_world)] { return std::make_unique<AsioWorld>(inner()); };
  return engine;
}

Engine redis_engine(std::string name, RedisWorld::Way way, bool tls = false) {
  return {.name = std::move(name),
          .make_world = [way, tls] { return std::make_unique<RedisWorld>(way, tls); },
          .missing = redis_missing,
          .reserves_names = true};
}

Engine troubled_redis_engine(std::string name, const RedisServer::Options& options,
                             TroubledRedis::Trouble trouble, milliseconds every) {
  return {.name = std::move(name),
          .make_world = [options, trouble,
                         every] { return std::make_unique<TroubledRedisWorld>(options, trouble, every); },
          .missing = redis_missing,
          .reserves_names = true,
          .asks_again = true};
}

}  // namespace

void PrintTo(const Engine& engine, std::ostream* out) {
  *out << engine.name;
}

std::vector<Engine> engines() {
  const Engine memory{"memory", [] { return std::make_unique<MemoryWorld>(); }};
  const Engine sqlite{"sqlite", [] { return std::make_unique<SqliteWorld>(); }};
  const Engine redis = redis_engine("redis_tcp", &RedisServer::tcp);
  return {
      memory,
      sqlite,
      {"sqlite_processes", [] { return std::make_unique<SqliteProcessesWorld>(); }},
      redis,
      redis_engine("redis_unix", &RedisServer::unix_socket),
      redis_engine("redis_tls", &RedisServer::tls, true),
      troubled_redis_engine("redis_disturbed", {}, TroubledRedis::disturb, milliseconds(3)),
      troubled_redis_engine("redis_restarting", {.persistent = true}, TroubledRedis::restart,
                            milliseconds(150)),
      with_telemetry(memory, "memory_telemetry"),
      with_telemetry(sqlite, "sqlite_telemetry"),
      with_telemetry(redis, "redis_telemetry"),
      with_asio(memory, "memory_asio"),
      with_asio(sqlite, "sqlite_asio"),
      with_asio(redis, "redis_asio"),
  };
}

}  // namespace holdfast::test
