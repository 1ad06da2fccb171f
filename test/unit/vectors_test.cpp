#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <holdfast/fence.hpp>
#include <holdfast/lock_types.hpp>
#include <nlohmann/json.hpp>

#include "core/nfc.hpp"
#include "core/storage_key.hpp"
#include "support/paths.hpp"

namespace holdfast {
namespace {

using nlohmann::json;

/// The file named by HOLDFAST_VECTORS, else the project's copy.
const json& vectors() {
  static const json all = [] {
    const char* named = std::getenv("HOLDFAST_VECTORS");
    const std::string file = named != nullptr ? named : test::vectors_dir() + "/locks.json";
    std::ifstream in(file);
    if (!in) throw std::runtime_error("cannot read the vectors " + file);
    return json::parse(in);
  }();
  return all;
}

const json& section(const char* name) {
  const json& found = vectors().at(name);
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

std::string storage_key(const json& prefix, const std::string& key) {
  return core::make_storage_key(prefix.get<std::string>(), key, 1000, 26).value_or_throw();
}

TEST(Vectors, StorageKeys) {
  for (const auto& v : section("storageKeys")) {
    const auto made = core::make_storage_key(v.at("prefix").get<std::string>(),
                                             v.at("key").get<std::string>(), v.at("limit"), v.at("reserve"));
    if (v.contains("error")) {
      ASSERT_FALSE(made) << v;
      EXPECT_EQ(to_string(made.error().code()), v.at("error").get<std::string>()) << v;
    } else {
      ASSERT_TRUE(made) << v << made.error().what();
      EXPECT_EQ(*made, v.at("storageKey").get<std::string>()) << v;
    }
  }
}

TEST(Vectors, RedisKeys) {
  for (const auto& v : section("redisKeys")) {
    const auto lock_key = storage_key(v.at("prefix"), v.at("key"));
    EXPECT_EQ(lock_key, v.at("lockKey").get<std::string>()) << v;
    EXPECT_EQ(storage_key(v.at("prefix"), "id:" + v.at("lockId").get<std::string>()),
              v.at("indexKey").get<std::string>());
    EXPECT_EQ(storage_key(v.at("prefix"), "fence:" + lock_key), v.at("fenceKey").get<std::string>()) << v;
    EXPECT_TRUE(LockId::parse(v.at("lockId").get<std::string>()));
  }
}

TEST(Vectors, KeyHashes) {
  for (const auto& v : section("keyHashes")) {
    EXPECT_EQ(key_hash(v.at("value").get<std::string>()), v.at("hash").get<std::string>()) << v;
  }
}

TEST(Vectors, NormalForms) {
  for (const auto& v : section("nfc")) {
    const auto normal = core::nfc(v.at("key").get<std::string>());
    ASSERT_TRUE(normal) << v;
    EXPECT_EQ(*normal, v.at("nfc").get<std::string>()) << v;
    EXPECT_EQ(normal->size(), v.at("bytes").get<std::size_t>()) << v;
  }
}

TEST(Vectors, Fences) {
  for (const auto& v : section("fences")) {
    const auto fence = Fence::of(v.at("value"));
    ASSERT_TRUE(fence) << v;
    EXPECT_EQ(fence->to_string(), v.at("fence").get<std::string>());
    EXPECT_EQ(Fence::parse(fence->to_string())->value(), v.at("value").get<std::uint64_t>());
  }
}

}  // namespace
}  // namespace holdfast
