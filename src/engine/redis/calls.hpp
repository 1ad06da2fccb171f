#pragma once

#include <algorithm>
#include <holdfast/done.hpp>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/redis/client.hpp"
#include "engine/redis/script.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {

/// An operation that is one script. `command(shared, by)` builds its command; `outcome(shared, answer, call)`
/// interprets the answer. An operation of several scripts has `goes_on(outcome)`: true if another command
/// must follow. `Shared` is the state shared by a backend's operations, at least a `client`; operations may
/// outlive the backend that began them.
template <class Shared, class Operation>
class ScriptCall final : public Call {
 public:
  ScriptCall(std::shared_ptr<Shared> shared, Operation operation, Done<typename Operation::Outcome> done)
      : shared_(std::move(shared)), operation_(std::move(operation)), done_(std::move(done)) {
    awaited = done_.is_awaited();
  }

  /// Ends the operation early, also between resends.
  std::stop_token stop;

  /// Completes at once with an error if the command cannot be built; returns whether it can.
  bool prepare() {
    auto command = operation_.command(*shared_, By::sha);
    if (!command) {
      done_(command.error());
      return false;
    }
    carry(*std::move(command));
    return true;
  }

 private:
  void finish(std::unique_ptr<Call> self, Result<Reply> answer) override {
    if (answer && by_ == By::sha && is_noscript(**answer)) return ask_again(std::move(self), By::text);
    if (answer && declared_.size() < most_declared) {
      if (auto keys = undeclared_keys(**answer); !keys.empty()) {
        std::ranges::move(keys, std::back_inserter(declared_));
        return ask_again(std::move(self), By::sha);
      }
    }
    auto outcome = operation_.outcome(*shared_, answer, *this);
    if constexpr (requires { operation_.goes_on(outcome); }) {
      if (operation_.goes_on(outcome)) {
        declared_.clear();
        return ask_again(std::move(self), By::sha);
      }
    }
    // A missing right concerns the operator, who may have several servers: name this one.
    if (answer && !outcome && outcome.error().code() == ErrorCode::AuthFailed) {
      return done_(shared_->client->endpoint().about(outcome.error()));
    }
    done_(std::move(outcome));
  }

  void ask_again(std::unique_ptr<Call> self, By by) {
    by_ = by;
    auto command = *operation_.command(*shared_, by);
    carry(declared_.empty() ? std::move(command) : with_keys(command, declared_));
    auto& client = *shared_->client;
    client.send(std::move(self), stop);
  }

  /// A script needs two at most; more are the names of several changes in between.
  static constexpr std::size_t most_declared = 16;

  std::shared_ptr<Shared> shared_;
  Operation operation_;
  Done<typename Operation::Outcome> done_;
  std::vector<std::string> declared_;  ///< keys that the script has asked for
  By by_ = By::sha;                    ///< how the last command named its script; a text is never unknown
};

/// The time limits of an operation. Never longer than the command timeout.
struct CallLimits {
  BootTime deadline = never;
  BootClock::duration answer_timeout;               ///< see Call
  bool by_idle_io = false;                          ///< see Call
  BootClock::duration answer_timeout_after_stop{};  ///< see Call
};

template <class Shared, class Operation>
void start_script(const std::shared_ptr<Shared>& shared, Operation operation, const CallLimits& limits,
                  const std::stop_token& stop, Done<typename Operation::Outcome> done) {
  auto& client = *shared->client;
  auto call = std::make_unique<ScriptCall<Shared, Operation>>(shared, std::move(operation), std::move(done));
  if (!call->prepare()) return;
  const auto limit = saturating_add(BootClock::now(), client.endpoint().options().command_timeout);
  call->deadline = std::min(limits.deadline, limit);
  call->answer_timeout = limits.answer_timeout;
  call->by_idle_io = limits.by_idle_io;
  call->answer_timeout_after_stop = limits.answer_timeout_after_stop;
  call->stop = stop;
  client.send(std::move(call), stop);
}

/// A page of a listing, which sends one command after another. `Listing` is a state machine such as
/// LockListing; `Shared` is the state shared by a backend's operations, at least a `client`.
template <class Shared, class Listing>
class ListingCall final : public Call {
 public:
  ListingCall(std::shared_ptr<Shared> shared, Listing listing, BootTime end, std::stop_token stop,
              Done<typename Listing::Page> done)
      : shared_(std::move(shared)),
        listing_(std::move(listing)),
        end_(end),
        stop_(std::move(stop)),
        done_(std::move(done)) {
    awaited = done_.is_awaited();
    carry(*listing_.command(By::sha));
    master = listing_.master();
    answer_timeout = command_timeout();
    set_deadline();
  }

 private:
  void finish(std::unique_ptr<Call> self, Result<Reply> answer) override {
    if (!answer) return done_(answer.error());
    const bool unknown_script = by_ == By::sha && is_noscript(**answer);
    if (!unknown_script) {
      if (const auto taken = listing_.take(**answer, connection()); !taken) return done_(taken.error());
    }
    by_ = unknown_script ? By::text : By::sha;
    auto next = listing_.command(by_);
    if (!next) return done_(std::move(listing_).page());
    carry(*std::move(next));
    master = listing_.master();
    set_deadline();
    auto& client = *shared_->client;
    client.send(std::move(self), stop_);
  }

  /// A listing may take long; each of its commands may not.
  void set_deadline() { deadline = std::min(end_, saturating_add(BootClock::now(), command_timeout())); }
  [[nodiscard]] BootClock::duration command_timeout() const {
    return shared_->client->endpoint().options().command_timeout;
  }

  std::shared_ptr<Shared> shared_;
  Listing listing_;
  BootTime end_;
  std::stop_token stop_;
  Done<typename Listing::Page> done_;
  By by_ = By::sha;  ///< as in ScriptCall
};

template <class Shared, class Listing>
void start_listing(const std::shared_ptr<Shared>& shared, Listing listing, BootTime end,
                   const std::stop_token& stop, Done<typename Listing::Page> done) {
  auto& client = *shared->client;
  client.send(
      std::make_unique<ListingCall<Shared, Listing>>(shared, std::move(listing), end, stop, std::move(done)),
      stop);
}

}  // namespace holdfast::redis
