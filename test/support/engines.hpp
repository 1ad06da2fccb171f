#pragma once

#include <functional>
#include <holdfast/lock_backend.hpp>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::test {

/// One store of one engine, for the length of a test.
class World {
 public:
  virtual ~World() = default;
  /// Another client of the same store.
  virtual std::shared_ptr<LockBackend> open() = 0;
};

/// An engine the contract suite runs on.
struct Engine {
  std::string name;
  std::function<std::unique_ptr<World>()> make_world;
};

void PrintTo(const Engine& engine, std::ostream* out);

/// Every engine there is; a new one costs an entry here.
std::vector<Engine> engines();

}  // namespace holdfast::test
