#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <holdfast/sqlite.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/sqlite/backends.hpp"
#include "support/temp_dir.hpp"
#include "support/times.hpp"

namespace holdfast::sqlite {

using namespace std::chrono_literals;

/// A clock that moves when told. `clock()` shares it.
struct FakeClock {
  std::int64_t boot_ms = 1'000'000;
  std::int64_t wall_ms = 1'700'000'000'000;
  ClockIdentity identity{.boot_id = "boot-1", .time_namespace = 1};

  void pass(std::chrono::milliseconds time) {
    boot_ms += time.count();
    wall_ms += time.count();
  }
  void reboot_after(std::chrono::milliseconds off) {
    identity.boot_id += "'";
    boot_ms = 5'000;
    wall_ms += off.count();
  }
  /// The same kernel, or another: a container's own boot id says nothing about it.
  void start_container(const std::string& name) {
    identity.boot_id = name;
    identity.is_kernels = false;
  }
  [[nodiscard]] Clock clock() {
    return {
        .boot_ms = [this] { return boot_ms; }, .wall_ms = [this] { return wall_ms; }, .identity = identity};
  }
};

/// Plain calls on a backend that completes inline.
class Client {
 public:
  explicit Client(std::shared_ptr<LockBackend> backend) : backend_(std::move(backend)) {}

  Result<AcquireOutcome> acquire(const LockId& id, const std::string& key,
                                 std::chrono::milliseconds ttl = 30s,
                                 Durability durability = Durability::process, BootTime deadline = never,
                                 std::stop_token stop = {}) {
    return call<AcquireOutcome>([&](auto done) {
      backend_->submit(AcquireRequest{.id = id,
                                      .key = *LockKey::parse(key),
                                      .ttl = *Ttl::of(ttl),
                                      .durability = durability,
                                      .deadline = deadline},
                       stop, std::move(done));
    });
  }
  /// Requires that it is granted.
  Granted grant(const LockId& id, const std::string& key, std::chrono::milliseconds ttl = 30s,
                Durability durability = Durability::process) {
    auto outcome = acquire(id, key, ttl, durability);
    if (!outcome) throw outcome.error();
    return std::get<Granted>(*outcome);
  }
  Result<ReleaseOutcome> release(const LockId& id, const std::optional<std::string>& key = {},
                                 Durability durability = Durability::process) {
    return call<ReleaseOutcome>([&](auto done) {
      backend_->submit(ReleaseRequest{.lock = ref(id, key), .durability = durability}, {}, std::move(done));
    });
  }
  Result<ExtendOutcome> extend(const LockId& id, const std::optional<std::string>& key,
                               std::chrono::milliseconds ttl, Durability durability = Durability::process) {
    return call<ExtendOutcome>([&](auto done) {
      backend_->submit(ExtendRequest{.lock = ref(id, key), .ttl = *Ttl::of(ttl), .durability = durability},
                       {}, std::move(done));
    });
  }
  Result<bool> is_locked(const std::string& key) {
    return call<bool>([&](auto done) {
      backend_->submit(IsLockedRequest{.key = *LockKey::parse(key)}, {}, std::move(done));
    });
  }
  Result<std::optional<LockRecord>> lookup(const std::string& key) {
    return call<std::optional<LockRecord>>([&](auto done) {
      backend_->submit(LookupRequest{.what = *LockKey::parse(key)}, {}, std::move(done));
    });
  }
  Result<std::optional<LockRecord>> lookup(const LockId& id) {
    return call<std::optional<LockRecord>>(
        [&](auto done) { backend_->submit(LookupRequest{.what = id}, {}, std::move(done)); });
  }
  Result<LockPage> list(const std::string& cursor = {}, std::size_t limit = 100) {
    return call<LockPage>([&](auto done) {
      backend_->submit(ListRequest{.cursor = cursor, .limit = limit}, {}, std::move(done));
    });
  }
  LockBackend& backend() { return *backend_; }

 private:
  static LockRef ref(const LockId& id, const std::optional<std::string>& key) {
    return {.id = id, .key = key ? std::optional(*LockKey::parse(*key)) : std::nullopt};
  }
  template <class T, class F>
  Result<T> call(F start) {
    Slot<T> slot;
    start(Done<T>::into(slot));
    EXPECT_TRUE(slot.completion.finished()) << "SQLite completes inline";
    return *std::move(slot.result);
  }
  std::shared_ptr<LockBackend> backend_;
};

inline bool granted(const Result<AcquireOutcome>& outcome) {
  return outcome.ok() && std::holds_alternative<Granted>(*outcome);
}
inline bool refused(const Result<AcquireOutcome>& outcome) {
  return outcome.ok() && std::holds_alternative<Refused>(*outcome);
}
inline bool released(const Result<ReleaseOutcome>& outcome) {
  return outcome.ok() && std::holds_alternative<Released>(*outcome);
}
inline bool extended(const Result<ExtendOutcome>& outcome) {
  return outcome.ok() && std::holds_alternative<Extended>(*outcome);
}
template <class Outcome>
std::optional<Absence> absence(const Result<Outcome>& outcome) {
  if (!outcome.ok() || !std::holds_alternative<Absence>(*outcome)) return std::nullopt;
  return std::get<Absence>(*outcome);
}

/// Runs SQL on a file from outside the engine, as an operator would.
inline std::string sql(const std::filesystem::path& file, const std::string& statements) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK) << file;
  sqlite3_busy_timeout(db, 5000);
  std::string answer;
  char* error = nullptr;
  const auto append = [](void* to, int columns, char** values, char**) {
    for (int i = 0; i < columns; ++i) {
      auto& text = *static_cast<std::string*>(to);
      if (!text.empty()) text += '|';
      text += values[i] == nullptr ? "null" : values[i];
    }
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, statements.c_str(), append, &answer, &error), SQLITE_OK)
      << statements << ": " << (error == nullptr ? "" : error);
  sqlite3_free(error);
  sqlite3_close(db);
  return answer;
}

class SqliteTest : public testing::Test {
 protected:
  /// On the machine's clock.
  Client open(const SqliteOptions& options = {}, std::shared_ptr<Log> log = {}) {
    return Client(make_sqlite_lock_backend(file, options, std::move(log)).value_or_throw());
  }
  /// On the fake clock, which must outlive it.
  Client open(FakeClock& fake, std::shared_ptr<Log> log = {}) {
    return Client(open_lock_backend(file, {}, std::move(log), fake.clock()).value_or_throw());
  }
  [[nodiscard]] std::optional<Error> refusal() const { return refusal(file); }
  static std::optional<Error> refusal(const std::filesystem::path& path) {
    auto opened = make_sqlite_lock_backend(path);
    if (opened.ok()) return std::nullopt;
    return opened.error();
  }

  test::TempDir directory;
  std::filesystem::path file = directory.path() / "locks.db";
};

}  // namespace holdfast::sqlite
