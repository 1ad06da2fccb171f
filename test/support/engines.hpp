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
  /// Why it cannot be tested here; empty if it can.
  std::function<std::string()> missing = [] { return std::string(); };

  // Lawful differences.
  /// Refuses user keys of the form `id:<lock id>`: its own names.
  bool reserves_names = false;
  /// Its answers get lost now and then, and it asks again. So its watches may wake without a release; a
  /// release that finds nothing may be told as done; and an id may be refused once it was refused or
  /// released.
  bool asks_again = false;
};

void PrintTo(const Engine& engine, std::ostream* out);

/// Every engine there is; a new one costs an entry here.
std::vector<Engine> engines();

}  // namespace holdfast::test
