#pragma once

#include <chrono>
#include <holdfast/job.hpp>
#include <holdfast/queue_requests.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "locks/notice.hpp"
#include "queue/queue_store.hpp"
#include "runtime/flow.hpp"

namespace holdfast::queue {

/// What to claim, checked.
struct Claim {
  /// `owners`: the stored names of the queues. InvalidArgument.
  [[nodiscard]] static Result<Claim> of(std::shared_ptr<const QueueStore> store,
                                        std::vector<std::string> owners, const ClaimOptions& how,
                                        std::size_t limit);

  std::shared_ptr<const QueueStore> store;
  std::vector<std::string> owners;
  ClaimTerms terms;
  Ttl lease;
  locks::Notice notice;
  std::chrono::milliseconds wait{};
};

/// Claims the next tasks of the first queue that has any, waiting for one as the claim says. Empty after
/// that. Aborted on a stop request.
[[nodiscard]] runtime::Op<std::vector<Job>> claim(runtime::Flow flow, Claim what, std::stop_token stop);

/// The same, after another request has claimed already, with this result, which was sent then.
[[nodiscard]] runtime::Op<std::vector<Job>> claim_after(runtime::Flow flow, Claim what,
                                                        std::optional<ClaimedRecords> first, BootTime sent,
                                                        std::stop_token stop);

/// Claims this task; empty if it cannot be claimed.
[[nodiscard]] runtime::Op<std::optional<Job>> claim_task(runtime::Flow flow, Claim what, std::string id,
                                                         std::stop_token stop);

}  // namespace holdfast::queue
