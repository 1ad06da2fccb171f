#pragma once

#include <gtest/gtest.h>

#include "support/engines.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {

/// Two clients of one store. Each subject of the contract derives a suite of its own from it.
class StorageContract : public testing::TestWithParam<StorageEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    mine = world->open();
    theirs = world->open();
  }

  /// A remove found nothing; an engine that asked again cannot tell that from its own first success.
  static void expect_nothing_removed(const RemoveOutcome& answer) {
    EXPECT_TRUE(std::holds_alternative<NoRecord>(answer) ||
                (std::holds_alternative<Removed>(answer) && GetParam().asks_again))
        << answer.index();
  }

  struct Expected {
    std::string data;
    std::uint64_t version;
    std::string incarnation;
    std::optional<FencingToken> bound_to = {};
    std::string origin = {};
  };
  /// The record is there, exactly so, for both clients.
  void expect_record(std::string_view key, const Expected& expected) const {
    for (const auto& client : {mine, theirs}) {
      const auto found = get(*client, key);
      ASSERT_TRUE(found) << key;
      EXPECT_EQ(found->data, expected.data);
      EXPECT_EQ(found->version, expected.version);
      EXPECT_EQ(found->incarnation, expected.incarnation);
      EXPECT_EQ(found->bound_to, expected.bound_to);
      EXPECT_EQ(found->origin, expected.origin);
    }
  }

  std::unique_ptr<StorageWorld> world;
  std::shared_ptr<StorageBackend> mine;
  std::shared_ptr<StorageBackend> theirs;
};

/// Variants to which nothing happens meanwhile.
inline std::vector<StorageEngine> undisturbed_storage_engines() {
  return storage_engines({"memory", "memory_hand_clock", "sqlite", "redis_tcp", "redis_unix", "redis_tls"});
}

inline std::string engine_name(const testing::TestParamInfo<StorageEngine>& instance) {
  return instance.param.name;
}

}  // namespace holdfast::test
