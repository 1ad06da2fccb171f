#include <gtest/gtest.h>

#include "rpc/session/granted_keys.hpp"

namespace holdfast::rpc {
namespace {

LockKey key(const std::string& text) {
  return LockKey::parse(text).value_or_throw();
}

TEST(RpcGrantedKeys, AreFoundByTheirIdUntilTheyAreErased) {
  GrantedKeys keys(10);
  const auto id = LockId::generate();
  EXPECT_FALSE(keys.find(id));
  keys.add(id, key("a"));
  keys.add(id, key("b"));
  EXPECT_EQ(keys.find(id)->str(), "b");
  keys.erase(id);
  keys.erase(id);
  EXPECT_FALSE(keys.find(id));
}

TEST(RpcGrantedKeys, TheOldestIsForgottenFirst) {
  GrantedKeys keys(2);
  const auto first = LockId::generate(), second = LockId::generate(), third = LockId::generate();
  keys.add(first, key("1"));
  keys.add(second, key("2"));
  keys.add(first, key("1"));
  keys.add(third, key("3"));
  EXPECT_TRUE(keys.find(first));
  EXPECT_FALSE(keys.find(second));
  EXPECT_TRUE(keys.find(third));
}

}  // namespace
}  // namespace holdfast::rpc
