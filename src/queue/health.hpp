#pragma once

#include <holdfast/clock.hpp>
#include <holdfast/doctor.hpp>
#include <holdfast/queue_requests.hpp>
#include <span>
#include <string>
#include <vector>

namespace holdfast::queue {

/// A queue as `doctor` finds it.
struct ExaminedQueue {
  std::string name;
  QueueCounts counts;
  std::size_t newest = 0;  ///< so many of its newest tasks were read
  std::size_t failed = 0;  ///< of them
};

/// Returns what an operator should know about the queues of a store; a pure function. Empty if there are
/// none. `store`: the findings about the store itself, which decide whether tasks survive. `now`: by the
/// store's clock.
[[nodiscard]] std::vector<Finding> judge_queues(std::span<const ExaminedQueue> queues,
                                                std::span<const Finding> store, WallTime now);

}  // namespace holdfast::queue
