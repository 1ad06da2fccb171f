#pragma once

#include <algorithm>
#include <holdfast/done.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/redis/calls.hpp"
#include "engine/redis/replica_wait.hpp"
#include "engine/redis/wire/command.hpp"

namespace holdfast::redis {

/// The client of operations that wait for replicas. It is not that of the others: WAIT blocks its connection.
template <class Shared>
struct Acknowledging {
  std::shared_ptr<Shared> base;
  std::shared_ptr<Client> client;
};

/// A change, and after it a WAIT on the same connection. `Operation` is that of a script, and has:
/// - `must_be_acknowledged(outcome)`, of its last outcome if it goes on: false if nothing was changed;
/// - `has_written()`: false if its last script only found what an earlier one had written. Then WAIT may
///   count replicas that do not have it, so it is not sent;
/// - `acknowledged(outcome, wait)`: the outcome of a change that enough replicas have acknowledged;
/// - `unacknowledged(wait)`: the error for one that they have not.
///
/// If an unacknowledged change must be undone:
/// - `undo(shared, by)`: the command for it, which is sent on the same connection;
/// - `undone(shared, reply or error, error)`: the final error, after that.
template <class Shared, class Operation>
class Acknowledged {
 public:
  using Outcome = typename Operation::Outcome;

  Acknowledged(Operation operation, ReplicaWait wait, BootTime deadline)
      : operation_(std::move(operation)), wait_(wait), deadline_(deadline) {}

  Result<RoutedCommand> command(const Acknowledging<Shared>& with, By by) const {
    switch (step_) {
      case Step::change:
        break;
      case Step::wait:
        return Command("WAIT", std::to_string(wait_.needed()), std::to_string(wait_.allowed().count()))
            .routed();
      case Step::undo:
        if constexpr (can_undo) return operation_.undo(*with.base, by);
        break;
    }
    return operation_.command(*with.base, by);
  }

  Result<Outcome> outcome(Acknowledging<Shared>& with, const Result<Reply>& answer, const Call& call) {
    const auto step = std::exchange(step_, Step::change);
    if (step == Step::change) {
      if (!connection_) connection_ = call.connection();
      auto outcome = operation_.outcome(*with.base, answer, call);
      if constexpr (requires { operation_.goes_on(outcome); }) {
        if (operation_.goes_on(outcome)) {
          next(Step::change);
          return outcome;
        }
      }
      return change_answered(std::move(outcome), call);
    }
    if constexpr (can_undo) {
      if (step == Step::undo) return operation_.undone(*with.base, answer, *error_);
    }
    const auto replicas = answer ? integer_of(**answer) : std::nullopt;
    wait_.counted(replicas, call.connection(), BootClock::now());
    if (wait_.enough()) return operation_.acknowledged(*std::move(changed_), wait_);
    error_ = operation_.unacknowledged(wait_);
    if (answer && is_error(**answer)) {
      const auto refused = error_of(**answer);
      if (refused.code() == ErrorCode::AuthFailed) error_ = refused.about(error_->key(), error_->lock_id());
    }
    if constexpr (can_undo) {
      // Without an answer the call has ended: it was stopped, or its deadline has passed.
      if (!answer) return operation_.undone(*with.base, answer, *error_);
      next(Step::undo);
    }
    return *error_;
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(goes_on_, false); }

 private:
  enum class Step : std::uint8_t { change, wait, undo };
  static constexpr bool can_undo = requires(const Operation& o, Shared& shared) { o.undo(shared, By::sha); };

  Result<Outcome> change_answered(Result<Outcome> outcome, const Call& call) {
    if (!outcome || !operation_.must_be_acknowledged(*outcome)) return outcome;
    // Of the first command: later ones may have been carried by another connection, to another server.
    wait_.changed(*connection_, BootClock::now(), deadline_);
    if (operation_.has_written()) {
      changed_ = *outcome;
      next(Step::wait);
    } else {
      wait_.counted(std::nullopt, call.connection(), BootClock::now());
      error_ = operation_.unacknowledged(wait_);
      next(Step::undo);
    }
    return outcome;
  }
  void next(Step step) noexcept {
    step_ = step;
    goes_on_ = true;
  }

  Operation operation_;
  ReplicaWait wait_;
  BootTime deadline_;
  Step step_ = Step::change;
  bool goes_on_ = false;
  std::optional<std::uint64_t> connection_;  ///< that carried the first command
  std::optional<Outcome> changed_;
  std::optional<Error> error_;
};

/// As start_script. A thread that waits for the result does the I/O here: LockBackend::wait would do that of
/// the other client.
template <class Shared, class Operation>
void start_acknowledged(const std::shared_ptr<Acknowledging<Shared>>& with, Operation operation,
                        ReplicaWait wait, const CallLimits& limits, const std::stop_token& stop,
                        Done<typename Operation::Outcome> done) {
  const auto limit = saturating_add(BootClock::now(), with->client->endpoint().options().command_timeout);
  Acknowledged<Shared, Operation> all(std::move(operation), wait, std::min(limits.deadline, limit));
  if (!done.is_awaited()) return start_script(with, std::move(all), limits, stop, std::move(done));
  using Outcome = typename Operation::Outcome;
  Slot<Outcome> slot;
  start_script(with, std::move(all), limits, stop, Done<Outcome>::into(slot));
  with->client->wait(slot.completion);
  done(*std::move(slot.result));
}

}  // namespace holdfast::redis
