#pragma once

#include <gtest/gtest.h>

#include <holdfast/memory.hpp>
#include <memory>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/faulty_backend.hpp"
#include "support/tested_locks.hpp"

namespace holdfast::test {

using Fault = FaultyBackend::Fault;
using Operation = FaultyBackend::Operation;

/// Locks, through each facade, on a wire that breaks as planned, with the engine behind it.
class GuardFixture : public testing::TestWithParam<Facade> {
 protected:
  /// Whether that holds after a guard's destructor: at once if destructors wait, else soon.
  [[nodiscard]] static bool after_destructor(const std::function<bool()>& condition) {
    return GetParam().waits ? condition() : eventually(condition);
  }
  [[nodiscard]] bool freed_by_destructor(std::string_view name) {
    return after_destructor([&] { return !locks.is_locked(name); });
  }

  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  std::shared_ptr<FaultyBackend> wire = std::make_shared<FaultyBackend>(memory);
  TestedLocks locks{GetParam(), wire};
};

inline std::string facade_name(const testing::TestParamInfo<Facade>& instance) {
  return instance.param.name;
}

}  // namespace holdfast::test
