// The label of a lock's holder: the same on every engine, for as long as the lock.

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>

#include "support/calls.hpp"
#include "support/engines.hpp"

namespace holdfast::test {
namespace {

class HolderLabels : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    backend = world->open();
    alices.emplace(backend, nullptr, nullptr, label("alice@web-3:812 make"));
    bobs.emplace(world->open(), nullptr, nullptr, label("bob@web-4:7 cron"));
  }
  static std::shared_ptr<const LockHolder> label(std::string_view text) {
    return LockHolder::from_setting(text).value_or_throw();
  }
  [[nodiscard]] std::string holder_of(const std::string& name) const {
    const auto record = lookup(*backend, name);
    if (!record) return "(no lock)";
    return record->holder ? record->holder->str() : "(none)";
  }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> backend;
  std::optional<Locks> alices, bobs;
};

TEST_P(HolderLabels, AreShownByEveryLook) {
  const auto lease = alices->acquire("k", {.ttl = 60s});
  EXPECT_EQ(bobs->get_by_key("k")->holder, *label("alice@web-3:812 make"));
  EXPECT_EQ(bobs->get_by_id(lease.id.str())->holder, *label("alice@web-3:812 make"));
  EXPECT_EQ(bobs->list_raw().locks.at(0).holder, *label("alice@web-3:812 make"));
}

TEST_P(HolderLabels, OfALockOverrideThatOfTheStore) {
  const std::string chosen = "a job with a label that is longer than a small string";
  const auto guard = alices->lock("k", {.holder = chosen});
  EXPECT_EQ(holder_of("k"), chosen);
  const auto none = alices->try_lock("without", {.holder = "none"});
  EXPECT_EQ(holder_of("without"), "(none)");
  const auto lease = alices->acquire("data", {.holder = "by hand"});
  EXPECT_EQ(holder_of("data"), "by hand");
  EXPECT_TRUE(alices->release(lease.id.str()));
  for (const auto& bad : {std::string(257, 'x'), std::string("\xFF")}) {
    try {
      (void)alices->try_lock("bad", {.holder = bad});
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    }
  }
  EXPECT_EQ(holder_of("bad"), "(no lock)");
}

TEST_P(HolderLabels, SurviveExtendAndDetachAndAreReplacedByAdopt) {
  auto guard = alices->lock("k", {.ttl = 60s});
  EXPECT_TRUE(guard.extend(50s));
  EXPECT_EQ(holder_of("k"), "alice@web-3:812 make");
  const auto lease = guard.detach();
  ASSERT_TRUE(lease);
  EXPECT_EQ(holder_of("k"), "alice@web-3:812 make");
  auto adopted = bobs->adopt(*lease);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(holder_of("k"), "bob@web-4:7 cron");
  EXPECT_TRUE(adopted->extend(40s));
  EXPECT_EQ(holder_of("k"), "bob@web-4:7 cron");
  const auto record = lookup(*backend, "k");
  EXPECT_EQ(record->id, lease->id);
  EXPECT_EQ(record->fence, lease->fence);
  const auto again = adopted->detach();
  ASSERT_TRUE(again);
  const auto nameless = alices->adopt(*again, {.holder = "none"});
  ASSERT_TRUE(nameless);
  EXPECT_EQ(holder_of("k"), "(none)") << "not the label of a process that has given it up";
}

TEST_P(HolderLabels, OfARepeatedAcquireStayThoseOfTheFirst) {
  const auto id = LockId::generate();
  AcquireRequest request{.id = id, .key = key("k"), .ttl = ttl(60s), .holder = label("first")};
  ASSERT_TRUE(try_acquire(*backend, request));
  request.holder = label("second");
  ASSERT_TRUE(try_acquire(*backend, request));
  EXPECT_EQ(holder_of("k"), "first");
}

TEST_P(HolderLabels, EndWithTheirLock) {
  {
    const auto guard = alices->lock("k");
  }
  const auto next = bobs->lock("k", {.holder = "none"});
  EXPECT_EQ(holder_of("k"), "(none)");
}

TEST_P(HolderLabels, AreInRefusalsAndInTheErrorOfAWaitInPrintableForm) {
  const auto guard = alices->lock("k", {.holder = "evil\n\x1B[2J\xE2\x80\xAE"});
  const auto outcome = try_acquire(*backend, LockId::generate(), "k").value_or_throw();
  const auto& refused = std::get<Refused>(outcome);
  ASSERT_TRUE(refused.holder);
  EXPECT_EQ(refused.holder->str(), "evil\n\x1B[2J\xE2\x80\xAE");
  EXPECT_TRUE(refused.free_in && *refused.free_in > 1s) << "and still until when";
  try {
    (void)bobs->lock("k", {.wait = 0ms});
    FAIL() << "granted twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::AcquisitionTimeout);
    EXPECT_EQ(error.holder(), "evil\n\x1B[2J\xE2\x80\xAE");
    EXPECT_EQ(error.message(), "\"k\": the lock is already held by evil\\x0a\\x1b[2J\\xe2\\x80\\xae");
  }
}

TEST_P(HolderLabels, AreReturnedByABreak) {
  const auto guard = alices->lock("k");
  const auto broken = bobs->break_lock("k", "a test");
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->holder, *label("alice@web-3:812 make"));
}

TEST_P(HolderLabels, OfAnyTextAreKeptByteForByteAndCannotForgeTheRecord) {
  const std::vector<std::string> texts = {
      "\",\"lockId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"expiresAtMs\":1,\"fence\":\"000000000000001\"}",
      "\\\"\\\\",
      "/</script>",
      std::string("\0nul", 4),
      "\xE2\x80\xA8",
      "\xF0\x9F\x94\x92",
      std::string(256, '"'),
      std::string(256, '\x01')};
  for (const auto& text : texts) {
    auto guard = alices->lock("k", {.ttl = 60s, .holder = text});
    const auto fence = guard.fence();
    EXPECT_EQ(holder_of("k"), text);
    EXPECT_TRUE(guard.extend(50s));
    EXPECT_EQ(holder_of("k"), text);
    EXPECT_EQ(lookup(*backend, "k")->fence, fence);
    EXPECT_EQ(lookup(*backend, "k")->id, guard.id());
    EXPECT_TRUE(guard.release());
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, HolderLabels, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
