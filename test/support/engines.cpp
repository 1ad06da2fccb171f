#include "support/engines.hpp"

#include <holdfast/memory.hpp>
#include <holdfast/sqlite.hpp>
#include <ostream>

#include "support/peer.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

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

}  // namespace

void PrintTo(const Engine& engine, std::ostream* out) {
  *out << engine.name;
}

std::vector<Engine> engines() {
  return {
      {"memory", [] { return std::make_unique<MemoryWorld>(); }},
      {"sqlite", [] { return std::make_unique<SqliteWorld>(); }},
      {"sqlite_processes", [] { return std::make_unique<SqliteProcessesWorld>(); }},
  };
}

}  // namespace holdfast::test
