#include "support/storage_engines.hpp"

#include <atomic>
#include <holdfast/memory.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <ostream>
#include <thread>

#include "support/asio_backend.hpp"
#include "support/instrumented.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"
#include "support/troubled_redis.hpp"

namespace holdfast::test {
namespace {

using std::chrono::milliseconds;

class MemoryWorld final : public StorageWorld {
 public:
  std::shared_ptr<StorageBackend> open() override { return backend_; }

 private:
  std::shared_ptr<StorageBackend> backend_ = make_memory_storage_backend();
};

/// Time passes only when the test says so: edges can be tested to the millisecond.
class HandClockWorld final : public StorageWorld {
 public:
  std::shared_ptr<StorageBackend> open() override { return backend_; }
  void reach(std::int64_t ms) override { ms_ = ms; }

 private:
  static std::int64_t read(void* self) { return static_cast<HandClockWorld*>(self)->ms_; }
  std::atomic<std::int64_t> ms_{1'700'000'000'000};
  std::shared_ptr<StorageBackend> backend_ =
      make_memory_storage_backend({.clock = read, .clock_context = this});
};

class SqliteWorld final : public StorageWorld {
 public:
  std::shared_ptr<StorageBackend> open() override {
    return make_sqlite_storage_backend(dir_ / "holdfast.db").value_or_throw();
  }

 private:
  TempDir dir_;
};

/// A server for each test, so that nothing of another is seen; each client has connections of its own.
class RedisWorld final : public StorageWorld {
 public:
  using Way = RedisOptions (RedisServer::*)() const;
  RedisWorld(Way way, bool tls) : server_({.tls = tls}), way_(way) {}

  std::shared_ptr<StorageBackend> open() override {
    auto options = (server_.*way_)();
    options.task_prefix = "contract";
    return make_redis_storage_backend(options).value_or_throw();
  }

 private:
  RedisServer server_;
  Way way_;
};

class TroubledRedisWorld final : public StorageWorld {
 public:
  TroubledRedisWorld(RedisServer::Options options, TroubledRedis::Trouble trouble, milliseconds every)
      : redis_(std::move(options), trouble, every) {}

  std::shared_ptr<StorageBackend> open() override {
    for (;;) {  // opening, unlike what follows, does not try again
      if (auto made = make_redis_storage_backend(redis_.tcp())) return *std::move(made);
    }
  }

 private:
  TroubledRedis redis_;
};

/// Another engine's world, with every instrument attached.
class TelemetryWorld final : public StorageWorld {
 public:
  explicit TelemetryWorld(std::unique_ptr<StorageWorld> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<StorageBackend> open() override { return with_observer(inner_->open(), observer_); }
  void reach(std::int64_t ms) override { inner_->reach(ms); }

 private:
  std::shared_ptr<Observer> observer_ = all_instruments();
  std::unique_ptr<StorageWorld> inner_;
};

StorageEngine with_telemetry(StorageEngine engine, std::string name) {
  engine.name = std::move(name);
  engine.make_world = [inner = std::move(engine.make_world)] {
    return std::make_unique<TelemetryWorld>(inner());
  };
  return engine;
}

/// Another engine's world, every client of which is asked through Asio.
class AsioWorld final : public StorageWorld {
 public:
  explicit AsioWorld(std::unique_ptr<StorageWorld> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<StorageBackend> open() override { return through_asio(inner_->open()); }
  void reach(std::int64_t ms) override { inner_->reach(ms); }

 private:
  std::unique_ptr<StorageWorld> inner_;
};

StorageEngine with_asio(StorageEngine engine, std::string name) {
  engine.name = std::move(name);
  engine.make_world = [inner = std::move(engine.make_world)] { return std::make_unique<AsioWorld>(inner()); };
  return engine;
}

StorageEngine redis_engine(std::string name, RedisWorld::Way way, bool tls = false) {
  return {.name = std::move(name),
          .make_world = [way, tls] { return std::make_unique<RedisWorld>(way, tls); },
          .missing = redis_missing,
          .cleans_up_by_itself = true};
}

StorageEngine troubled_redis_engine(std::string name, const RedisServer::Options& options,
                                    TroubledRedis::Trouble trouble, milliseconds every) {
  return {.name = std::move(name),
          .make_world = [options, trouble,
                         every] { return std::make_unique<TroubledRedisWorld>(options, trouble, every); },
          .missing = redis_missing,
          .cleans_up_by_itself = true,
          .asks_again = true};
}

}  // namespace

void StorageWorld::reach(std::int64_t ms) {
  constexpr std::int64_t clock_difference_ms = 25;
  const auto backend = open();
  while (backend->now_ms() < ms + clock_difference_ms) std::this_thread::sleep_for(milliseconds(2));
}

void PrintTo(const StorageEngine& engine, std::ostream* out) {
  *out << engine.name;
}

std::vector<StorageEngine> undisturbed_storage_engines() {
  return {
      {.name = "memory", .make_world = [] { return std::make_unique<MemoryWorld>(); }},
      {.name = "memory_hand_clock",
       .make_world = [] { return std::make_unique<HandClockWorld>(); },
       .hand_clock = true},
      {.name = "sqlite", .make_world = [] { return std::make_unique<SqliteWorld>(); }},
      redis_engine("redis_tcp", &RedisServer::tcp),
      redis_engine("redis_unix", &RedisServer::unix_socket),
      redis_engine("redis_tls", &RedisServer::tls, true),
  };
}

std::vector<StorageEngine> storage_engines() {
  auto all = undisturbed_storage_engines();
  all.push_back(troubled_redis_engine("redis_disturbed", {}, TroubledRedis::disturb, milliseconds(3)));
  all.push_back(troubled_redis_engine("redis_restarting", {.persistent = true}, TroubledRedis::restart,
                                      milliseconds(150)));
  for (const auto& engine : undisturbed_storage_engines()) {
    if (engine.name == "memory" || engine.name == "sqlite" || engine.name == "redis_tcp") {
      all.push_back(with_telemetry(engine, engine.name.substr(0, engine.name.find('_')) + "_telemetry"));
      all.push_back(with_asio(engine, engine.name.substr(0, engine.name.find('_')) + "_asio"));
    }
  }
  return all;
}

}  // namespace holdfast::test
