#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/memory.hpp>

#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

class MemoryStorage : public testing::Test {
 protected:
  static WallTime read(void* self) { return from_ms(static_cast<MemoryStorage*>(self)->ms); }
  std::atomic<std::int64_t> ms{1'700'000'000'000};
  std::shared_ptr<StorageBackend> store = make_memory_storage_backend({.clock = read, .clock_context = this});
};

TEST_F(MemoryStorage, ExpiredRecordsOfOwnersNobodyAsksForDoNotPileUp) {
  for (int round = 0; round < 20; ++round) {
    const auto data = record_data(record_text({.expires_at = ms + 10}));
    for (int i = 0; i < 1000; ++i) {
      const auto key = record_key("owner" + std::to_string(round * 1000 + i) + ":task");
      outcome(*store, CreateRecord{.key = key, .data = data});
    }
    ms += 10;
  }
  EXPECT_LT(outcome(*store, CleanupRecords{}), 10'000U) << "most were deleted on the way";
}

TEST_F(MemoryStorage, ACleanupFindsWhatALaterWriteGaveAnEarlierOrLaterEnd) {
  create(*store, "owner:sooner", record_text({.expires_at = ms + 1000}));
  create(*store, "owner:later", record_text({.expires_at = ms + 10}));
  create(*store, "owner:never", record_text({.expires_at = ms + 10}));
  put(*store, "owner:sooner", record_text({.expires_at = ms + 10}));
  put(*store, "owner:later", record_text({.expires_at = ms + 1000}));
  put(*store, "owner:never");
  ms += 10;
  EXPECT_EQ(outcome(*store, CleanupRecords{}), 1U);
  EXPECT_EQ(tasks_of(*store, "owner"), (std::vector<std::string>{"later", "never"}));
  ms += 1000;
  EXPECT_EQ(outcome(*store, CleanupRecords{}), 1U);
}

TEST_F(MemoryStorage, StoresHaveNothingInCommon) {
  create(*store, "owner:task");
  EXPECT_FALSE(get(*make_memory_storage_backend(), "owner:task"));
}

}  // namespace
}  // namespace holdfast::test
