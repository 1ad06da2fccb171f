#pragma once

#include <gtest/gtest.h>

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <memory>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/faulty_backend.hpp"

namespace holdfast::test {

using Fault = FaultyBackend::Fault;
using Operation = FaultyBackend::Operation;

/// Locks on a wire that breaks as planned, with the engine behind it.
class GuardFixture : public testing::Test {
 protected:
  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  std::shared_ptr<FaultyBackend> wire = std::make_shared<FaultyBackend>(memory);
  Locks locks{wire};
};

}  // namespace holdfast::test
