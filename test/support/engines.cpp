#include "support/engines.hpp"

#include <holdfast/memory.hpp>
#include <holdfast/sqlite.hpp>
#include <ostream>

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

}  // namespace

void PrintTo(const Engine& engine, std::ostream* out) {
  *out << engine.name;
}

std::vector<Engine> engines() {
  return {
      {"memory", [] { return std::make_unique<MemoryWorld>(); }},
      {"sqlite", [] { return std::make_unique<SqliteWorld>(); }},
  };
}

}  // namespace holdfast::test
