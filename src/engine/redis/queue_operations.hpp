#pragma once

#include <chrono>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <string>
#include <type_traits>

#include "engine/redis/queue_commands.hpp"
#include "engine/redis/queue_waits.hpp"
#include "engine/redis/storage_operations.hpp"

namespace holdfast::redis {

// The operations on queues: see ScriptCall.

/// A lease whose answer is lost would count as a death when it expires. So a caller that stops a claim waits
/// a moment for what it was granted.
inline constexpr std::chrono::seconds claim_timeout_after_stop(1);

/// A claim that is under way: its slot, and the watches of its queue in this process.
class ClaimUnderWay {
 public:
  ClaimUnderWay(const Store& store, std::string_view owner)
      : taken_(store.claim_slots), waits_(store.watched_queues.find(owner)) {
    if (waits_) waiting_ = waits_->waiting();
  }
  [[nodiscard]] ClaimCall call() const {
    return {.slot = taken_.slot(), .number = taken_.call(), .waiting = waiting_};
  }
  void answered(bool claimed, bool wakes_another) const {
    if (waits_) waits_->answered(waiting_, claimed, wakes_another);
  }

 private:
  ClaimSlots::Taken taken_;
  std::shared_ptr<QueueWaits> waits_;
  std::string_view waiting_;
};

struct ClaimNextOperation {
  using Outcome = ClaimedRecords;
  ClaimNext request;
  ClaimUnderWay claim;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return claim_command(store.queue_client(), request, claim.call(), by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.owner, {});
    auto claimed = claim_outcome(**answer, request);
    if (!claimed) return claimed.error();
    claim.answered(!claimed->records.claimed.empty(), claimed->wakes_another);
    return std::move(claimed->records);
  }
};

struct ClaimRecordOperation {
  using Outcome = ClaimOutcome;
  ClaimRecord request;
  std::string id = os::new_incarnation();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return claim_task_command(store.queue_client(), request, id, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return claim_task_outcome(**answer, request);
  }
};

using RenewOperation = OneScript<RenewLeases, renew_command, renew_outcome>;

struct EndOperation {
  using Outcome = EndedLease;
  EndLease request;
  std::optional<ClaimUnderWay> claim;
  std::string id = os::new_incarnation();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return end_command(store.queue_client(), request, id, claim ? claim->call() : ClaimCall(), by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto ended = end_outcome(**answer, request);
    if (!ended) return ended.error();
    if (call.was_repeated() && is_doubtful(ended->ended.end)) return forgotten_end(request.key);
    if (claim && ended->ended.next) {
      claim->answered(!ended->ended.next->claimed.empty(), ended->wakes_another);
    }
    return std::move(ended->ended);
  }

 private:
  /// Whether an earlier copy of this request may have ended the lease although this one is refused: a record
  /// remembers the last eight writes and ends. A claim raises the fence, so there were not more ends since
  /// ours than the difference. A finished record is not claimed again, but may not be kept.
  [[nodiscard]] bool is_doubtful(const EndOutcome& end) const {
    if (std::holds_alternative<NoRecord>(end)) return request.end == LeaseEnd::finished;
    if (const auto* conflict = std::get_if<VersionConflict>(&end)) {
      return !conflict->replaced && conflict->actual > conflict->expected + remembered_writes;
    }
    const auto* refused = std::get_if<FenceRefused>(&end);
    if (refused == nullptr || request.end == LeaseEnd::finished) return false;
    return refused->why != ErrorCode::StaleFence ||
           refused->bound_to.fence.value() - refused->given.value() >= remembered_ends;
  }
};

/// Whether the answer may hand over a lease.
template <class Operation>
[[nodiscard]] bool claims([[maybe_unused]] const Operation& operation) noexcept {
  if constexpr (std::is_same_v<Operation, EndOperation>) {
    return operation.claim.has_value();
  } else {
    return std::is_same_v<Operation, ClaimNextOperation> || std::is_same_v<Operation, ClaimRecordOperation>;
  }
}

using CountOperation = OneScript<CountQueue, count_command, count_outcome>;
using ConfigureOperation = OneScript<ConfigureQueue, configure_command, count_outcome>;

}  // namespace holdfast::redis
