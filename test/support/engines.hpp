#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast::test {

/// One store of one engine, for the length of a test. Backend: LockBackend or StorageBackend.
template <class Backend>
class WorldOf {
 public:
  virtual ~WorldOf() = default;
  /// Another client of the same store.
  virtual std::shared_ptr<Backend> open() = 0;
  /// For storage: returns once the engine's clock has reached this time. By waiting, and then some for the
  /// difference between that clock and the client's idea of it; or by setting a hand clock to exactly this.
  virtual void reach(std::int64_t ms);
};
using LockWorld = WorldOf<LockBackend>;
using StorageWorld = WorldOf<StorageBackend>;

/// A variant of an engine that a contract suite runs on. CONTRIBUTING.md says which one runs in which tree.
template <class Backend>
struct EngineOf {
  std::string name;
  std::function<std::unique_ptr<WorldOf<Backend>>()> make_world;
  /// Why it cannot be tested here; empty if it can.
  std::function<std::string()> missing = [] { return std::string(); };

  // Lawful differences.
  /// Its clock stands still but for WorldOf::reach.
  bool hand_clock = false;
  /// Refuses user keys of the form `id:<lock id>`: its own names.
  bool reserves_names = false;
  /// Deletes expired records by itself: cleanup_expired finds none.
  bool cleans_up_by_itself = false;
  /// Replies get lost now and then, and it resends. So its watches may wake without a change; a release or
  /// remove that finds nothing may be reported as done; a lock id may be refused once it was refused or
  /// released; a refused change may be unknown, and a write that ended its record at once may look as if it
  /// had found none. A large reply may never come through.
  bool asks_again = false;
  /// For storage: has the operations of queues.
  bool has_queues = false;
};
using LockEngine = EngineOf<LockBackend>;
using StorageEngine = EngineOf<StorageBackend>;

template <class Backend>
void PrintTo(const EngineOf<Backend>& engine, std::ostream* out) {
  *out << engine.name;
}

/// The variants that every suite runs on. A new one costs an entry here and a row in CONTRIBUTING.md.
std::vector<LockEngine> lock_engines();
std::vector<StorageEngine> storage_engines();

/// The variants that have queues, "sqlite_hand_clock" included: what happens in a queue depends on the time.
std::vector<StorageEngine> queue_engines();

/// Those with these names, in this order. Knows "sqlite_hand_clock" besides. Throws if there is none of a
/// name.
std::vector<LockEngine> lock_engines(std::initializer_list<std::string_view> names);
std::vector<StorageEngine> storage_engines(std::initializer_list<std::string_view> names);

}  // namespace holdfast::test
