#include "support/engines.hpp"

#include <holdfast/memory.hpp>
#include <ostream>

namespace holdfast::test {
namespace {

class MemoryWorld final : public World {
 public:
  std::shared_ptr<LockBackend> open() override { return backend_; }

 private:
  std::shared_ptr<LockBackend> backend_ = make_memory_lock_backend();
};

}  // namespace

void PrintTo(const Engine& engine, std::ostream* out) {
  *out << engine.name;
}

std::vector<Engine> engines() {
  return {
      {"memory", [] { return std::make_unique<MemoryWorld>(); }},
  };
}

}  // namespace holdfast::test
