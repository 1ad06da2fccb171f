// Random operations on every engine, compared with the simplest thing that could be right.

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "support/calls.hpp"
#include "support/engines.hpp"
#include "support/seeded.hpp"

namespace holdfast::test {
namespace {

/// What the locks of one store should be. Leases are either long, or short and then waited out at once, so
/// that no answer depends on how fast the machine is.
class LockModel {
 public:
  struct Held {
    LockId id;
    Fence fence;
    std::shared_ptr<const LockHolder> holder;
  };
  std::map<std::string, Held> held;
  std::map<std::string, Fence> highest;

  [[nodiscard]] const Held* by_id(const LockId& id) const {
    for (const auto& [key, lock] : held) {
      if (lock.id == id) return &lock;
    }
    return nullptr;
  }
  [[nodiscard]] std::string key_of(const LockId& id) const {
    for (const auto& [key, lock] : held) {
      if (lock.id == id) return key;
    }
    return {};
  }
};

class EveryEngine : public testing::TestWithParam<LockEngine> {};

TEST_P(EveryEngine, AgreesWithAPlainModelUnderRandomOperations) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
  const auto world = GetParam().make_world();
  const std::vector<std::shared_ptr<LockBackend>> clients = {world->open(), world->open(), world->open()};
  const std::vector<std::string> keys = {"a", "b", "c", "\xE9\x8D\xB5", std::string(512, 'z')};
  std::vector<LockId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(LockId::generate());
  // Labels that need escapes of every kind, and none.
  std::vector<std::shared_ptr<const LockHolder>> labels = {nullptr};
  for (const auto* text : {"alice@web-3:812 make", "\"\\/\x1B[2J\n",
                           "\xE2\x80\xAE"
                           "evil",
                           "\",\"fence\":\"1\"}"}) {
    labels.push_back(LockHolder::from_setting(text).value_or_throw());
  }
  const auto same = [](const std::optional<LockHolder>& stored,
                       const std::shared_ptr<const LockHolder>& label) {
    return stored ? label && *stored == *label : !label;
  };
  LockModel model;

  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    auto& client = *random.pick(clients);
    const auto& key = random.pick(keys);
    const auto which = random.below(ids.size());
    const auto id = ids[which];
    SCOPED_TRACE("step " + std::to_string(step));
    const bool with_key = random.below(2) == 0;
    const auto given_key = with_key ? std::optional(key) : std::nullopt;
    const auto at = model.held.find(key);
    const bool holds_key = at != model.held.end() && at->second.id == id;
    const bool holds_any = model.by_id(id) != nullptr;
    const bool ours = with_key ? holds_key : holds_any;

    switch (random.below(7)) {
      case 0:
      case 1: {  // acquire
        const bool brief = random.below(20) == 0;
        const auto& label = random.pick(labels);
        const auto result = try_acquire(client, id, key, brief ? 2ms : 60'000ms, label);
        if (at == model.held.end() && holds_any) {
          ASSERT_FALSE(result);
          EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
        } else if (at != model.held.end() && !holds_key) {
          // An id that holds something else may be told either truth.
          EXPECT_TRUE(!result ? holds_any : std::holds_alternative<Refused>(*result));
          if (const auto* refused = result ? std::get_if<Refused>(&*result) : nullptr) {
            EXPECT_EQ(refused->holder ? refused->holder->str() : "",
                      at->second.holder ? at->second.holder->str() : "");
          }
          if (GetParam().asks_again && !holds_any) ids[which] = LockId::generate();
        } else {
          ASSERT_TRUE(result) << result.error().what();
          const auto* granted = std::get_if<Granted>(&*result);
          ASSERT_NE(granted, nullptr);
          if (holds_key) {
            EXPECT_EQ(granted->fence, at->second.fence);
          } else {
            EXPECT_GT(granted->fence, model.highest[key]);
            model.highest[key] = granted->fence;
            if (brief) {
              std::this_thread::sleep_for(8ms);
            } else {
              model.held.emplace(key, LockModel::Held{id, granted->fence, label});
            }
          }
        }
        break;
      }
      case 2: {  // release
        const auto absence = release(client, id, given_key);
        EXPECT_EQ(absence.has_value(), !ours);
        if (ours) model.held.erase(with_key ? key : model.key_of(id));
        if (GetParam().asks_again && model.by_id(id) == nullptr) ids[which] = LockId::generate();
        break;
      }
      case 3: {  // extend, sometimes to the end
        const bool brief = random.below(10) == 0;
        const bool adopts = random.below(4) == 0;
        const auto& label = random.pick(labels);
        const auto outcome = extend(client, id, given_key, brief ? 2ms : 60'000ms,
                                    adopts ? std::optional(label) : std::nullopt);
        if (adopts && ours) model.held.at(with_key ? key : model.key_of(id)).holder = label;
        // Where a lost answer is asked for again, the copy that was carried out left 2 ms.
        if (!(ours && brief && GetParam().asks_again)) {
          EXPECT_EQ(std::holds_alternative<Extended>(outcome), ours);
        }
        if (ours && brief) {
          std::this_thread::sleep_for(8ms);
          model.held.erase(with_key ? key : model.key_of(id));
          // An attempt on another key that was refused, and sent more than once, is taken back in the
          // background: once the id holds nothing, it is spent.
          if (GetParam().asks_again) ids[which] = LockId::generate();
        }
        break;
      }
      case 4:
        EXPECT_EQ(is_locked(client, key), at != model.held.end());
        break;
      case 5: {  // lookup
        const auto by_key = lookup(client, key);
        ASSERT_EQ(by_key.has_value(), at != model.held.end());
        if (by_key) {
          EXPECT_EQ(by_key->id, at->second.id);
          EXPECT_EQ(by_key->fence, at->second.fence);
          EXPECT_TRUE(same(by_key->holder, at->second.holder));
        }
        const auto by_id = lookup(client, id);
        ASSERT_EQ(by_id.has_value(), holds_any);
        EXPECT_EQ(by_id ? by_id->key.str() : std::string(), model.key_of(id));
        break;
      }
      default: {  // list
        const auto page = list(client).value_or_throw();
        ASSERT_EQ(page.locks.size(), model.held.size());
        for (const auto& lock : page.locks) {
          EXPECT_EQ(model.held.at(lock.key.str()).id, lock.id);
          EXPECT_TRUE(same(lock.holder, model.held.at(lock.key.str()).holder));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryEngine, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
