#pragma once

#include <functional>
#include <holdfast/storage_backend.hpp>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::test {

/// One store of one engine, for the length of a test.
class StorageWorld {
 public:
  virtual ~StorageWorld() = default;
  /// Another client of the same store.
  virtual std::shared_ptr<StorageBackend> open() = 0;
  /// Returns once the engine's clock has reached this time: by waiting, and then some for the difference
  /// between that clock and the client's idea of it; or by turning the clock to exactly this time.
  virtual void reach(std::int64_t ms);
};

/// An engine the storage contract suite runs on.
struct StorageEngine {
  std::string name;
  std::function<std::unique_ptr<StorageWorld>()> make_world;
  /// Why it cannot be tested here; empty if it can.
  std::function<std::string()> missing = [] { return std::string(); };

  // Lawful differences.
  /// Its clock stands still but for StorageWorld::reach.
  bool hand_clock = false;
  /// Gets rid of expired records by itself: cleanup_expired finds none.
  bool cleans_up_by_itself = false;
  /// Its answers get lost now and then, and it asks again. So its watches may wake without a change, a remove
  /// that finds nothing may be told as done, a refused change as unknown, and a write that ended its record
  /// at once as if it had found none. A large answer may never come through.
  bool asks_again = false;
};

void PrintTo(const StorageEngine& engine, std::ostream* out);

/// Every engine there is; a new one costs an entry here.
std::vector<StorageEngine> storage_engines();
/// Those to which nothing happens meanwhile.
std::vector<StorageEngine> undisturbed_storage_engines();

}  // namespace holdfast::test
