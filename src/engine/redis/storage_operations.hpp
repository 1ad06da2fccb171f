#pragma once

#include <atomic>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/redis/calls.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/queue_commands.hpp"
#include "engine/redis/queue_waits.hpp"
#include "engine/redis/record_commands.hpp"
#include "engine/redis/server_clock.hpp"
#include "engine/redis/subscriber.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/wire/errors.hpp"
#include "os/random.hpp"

namespace holdfast::redis {

/// State shared by pending operations, which may outlive the backend that began them.
struct Store {
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Transport> client;
  StorageLayout layout;
  std::shared_ptr<Log> log;
  /// The client of one server, whose I/O the subscriber's thread may do.
  std::shared_ptr<Client> single = {};
  WhereToListen where_to_listen = {};
  ServerClock clock = {};
  std::atomic<bool> is_marked = false;  ///< with its layout
  const std::string process = os::new_incarnation();
  const std::shared_ptr<ClaimSlots> claim_slots = std::make_shared<ClaimSlots>();
  WatchedQueues watched_queues = {};

  [[nodiscard]] QueueClient queue_client() const {
    const bool sharded = layout.channels() == Channels::sharded;
    return {.layout = layout, .channels = sharded ? "s" : single ? "" : "c", .process = process};
  }
};

/// The layout of a task prefix is marked by the first record that is written there, so that a store of the
/// other layout refuses the prefix: it would not see these records. Reading marks nothing.
inline std::string_view mark_of(const StorageLayout& layout) {
  return layout.layout() == RedisLayout::native ? "native" : "documented";
}
inline std::optional<Error> refuse_mark(const Store& store, std::string_view found) {
  if (found.empty() || found == mark_of(store.layout)) return std::nullopt;
  return store.endpoint->about(
      {ErrorCode::InvalidArgument, "the task prefix \"" + store.endpoint->options().task_prefix +
                                       "\" is used with layout=" + std::string(found) +
                                       "; use that layout, or another task_prefix"});
}

/// An operation that may create a record: marks the prefix first, unless that is known to be done.
template <class Operation>
struct Marking : Operation {
  using Outcome = typename Operation::Outcome;
  enum class Step : std::uint8_t { mark, read, work };
  Step step;
  bool more = false;  ///< another command must follow

  Marking(Operation operation, bool is_marked)
      : Operation(std::move(operation)), step(is_marked ? Step::work : Step::mark) {}

  Result<RoutedCommand> command(const Store& store, By by) const {
    if (step == Step::work) return Operation::command(store, by);
    auto command = step == Step::mark ? Command::begin("SET", 3) : Command::begin("GET", 1);
    command.add_key(store.layout.marker());
    if (step == Step::mark) command.add(mark_of(store.layout)).add("NX");
    return std::move(command).routed();
  }
  Result<Outcome> outcome(Store& store, const Result<Reply>& answer, const Call& call) {
    if (step == Step::work) return Operation::outcome(store, answer, call);
    if (!answer) return answer.error().about(this->request.key.str(), {});
    if (is_error(**answer)) return error_of(**answer).about(this->request.key.str(), {});
    more = true;
    if (step == Step::mark && (*answer)->type == REDIS_REPLY_NIL) {
      step = Step::read;
      return Outcome{};
    }
    if (step == Step::read) {
      if (auto refused = refuse_mark(store, text_of(**answer))) {
        more = false;
        return *std::move(refused);
      }
    }
    store.is_marked = true;
    step = Step::work;
    return Outcome{};
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>& outcome) {
    if (std::exchange(more, false)) return true;
    if constexpr (requires { Operation::goes_on(outcome); }) return Operation::goes_on(outcome);
    return false;
  }
};

// The operations: see ScriptCall. Building a command never fails here.

/// An operation that is one script and keeps no state. `build(layout, request, by)`, or that of a queue
/// `build(client, request, by)`, makes its command. `read(reply, request)`, or `read(reply, key)` if it needs
/// only the key or owner of the request, for errors, interprets the reply.
template <class Request, auto build, auto read>
struct OneScript {
  using Outcome = typename Request::Outcome;
  Request request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    if constexpr (std::is_invocable_v<decltype(build), const StorageLayout&, const Request&, By>) {
      return build(store.layout, request, by);
    } else {
      return build(store.queue_client(), request, by);
    }
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    const auto key = request.subject().key;
    if (!answer) return answer.error().about(key, {});
    if constexpr (std::is_invocable_v<decltype(read), const redisReply&, const Request&>) {
      return read(**answer, request);
    } else {
      return read(**answer, key);
    }
  }
};

using GetOperation = OneScript<GetRecord, get_command, get_outcome>;

struct CreateOperation {
  using Outcome = CreateOutcome;
  CreateRecord request;
  std::string id = os::new_incarnation();
  BootTime begun = BootClock::now();
  QuotaSweep sweep = {};

  Result<RoutedCommand> command(const Store& store, By by) const {
    return request.queue ? queue_create_command(store.queue_client(), request, id, by)
                         : create_command(store.layout, request, id, sweep, by);
  }
  Result<Outcome> outcome(Store& store, const Result<Reply>& answer, const Call&) {
    sweep = {};
    if (!answer) return answer.error().about(request.key.str(), {});
    if (const auto now_ms = server_time_of(**answer)) store.clock.learn(*now_ms, begun, BootClock::now());
    if (!request.queue) sweep = next_sweep(**answer);
    return create_outcome(**answer, request, id);
  }
  /// The owner has reached its quota, but some of its records may be dead.
  [[nodiscard]] bool goes_on(const Result<Outcome>&) const { return !sweep.tasks.empty(); }
};

struct PutOperation {
  using Outcome = PutOutcome;
  PutRecord request;
  std::string id = os::new_incarnation();
  bool is_in_queue = request.leaves_queue;  ///< its queue must be changed too
  bool is_refused = false;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return is_in_queue ? queue_put_command(store.queue_client(), request, id, by)
                       : put_command(store.layout, request, id, by);
  }
  /// The record has left a queue, and is written with that.
  [[nodiscard]] bool goes_on(const Result<Outcome>&) { return std::exchange(is_refused, false); }

  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) {
    if (!answer) return answer.error().about(request.key.str(), {});
    if (!is_in_queue && is_put_of_queue(**answer)) {
      is_in_queue = is_refused = true;
      return Outcome{};
    }
    auto outcome = is_in_queue ? queue_put_outcome(**answer, request) : put_outcome(**answer, request);
    const auto unknown = [this](const char* why) {
      return Error(ErrorCode::NetworkTimeout,
                   std::string("outcome unknown: the connection broke before the reply arrived, and ") + why)
          .about(request.key.str(), {});
    };
    if (!outcome || !call.was_repeated()) return outcome;
    const auto* conflict = std::get_if<VersionConflict>(&*outcome);
    if (conflict != nullptr && !is_certain(*conflict)) {
      return unknown(
          "the record was written often since. Read the record to see whether this write succeeded");
    }
    if (request.leaves_queue && std::holds_alternative<NoRecord>(*outcome)) {
      return unknown("the record is gone. This write may have succeeded, if the record is not kept");
    }
    return outcome;
  }

 private:
  /// Whether the conflicting write cannot be an earlier copy of this one: the script would have recognised it
  /// among the last few. If the record was replaced, the one that was meant is gone in any case.
  [[nodiscard]] static bool is_certain(const VersionConflict& conflict) {
    return conflict.replaced || conflict.actual <= conflict.expected + remembered_writes;
  }
};

struct RemoveOperation {
  using Outcome = RemoveOutcome;
  RemoveRecord request;

  Result<RoutedCommand> command(const Store& store, By by) const {
    return remove_command(store.layout, request, store.queue_client().channels, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call& call) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    auto outcome = remove_outcome(**answer, request);
    // A resend after a lost answer that finds no record: the first request removed it.
    if (outcome && call.was_repeated() && std::holds_alternative<NoRecord>(*outcome)) return Removed{};
    return outcome;
  }
};

/// Idempotent, so a refusal after a resend needs no special case.
struct GuardOperation {
  using Outcome = BindOutcome;
  BindRecord request;
  std::string id = os::new_incarnation();

  Result<RoutedCommand> command(const Store& store, By by) const {
    return guard_command(store.layout, request, id, by);
  }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) const {
    if (!answer) return answer.error().about(request.key.str(), {});
    return guard_outcome(**answer, request);
  }
};

using RebindOperation = OneScript<RebindRecord, rebind_command, rebind_outcome>;

/// Sent twice, the second copy finds the first one's bytes by their positions.
using AppendOperation = OneScript<AppendOutput, append_command, append_outcome>;

using ReadOutputOperation = OneScript<ReadOutput, read_command, read_outcome>;

struct ListOperation {
  using Outcome = RecordPage;
  ListRecords request;
  RecordListing listing = RecordListing(request);

  Result<RoutedCommand> command(const Store& store, By by) const { return listing.command(store.layout, by); }
  Result<Outcome> outcome(Store&, const Result<Reply>& answer, const Call&) {
    if (!answer) return answer.error().about(request.prefix, {});
    if (auto taken = listing.take(**answer); !taken) return taken.error();
    return listing.is_done() ? std::move(listing).page() : RecordPage{};
  }
  [[nodiscard]] bool goes_on(const Result<Outcome>& page) const { return page && !listing.is_done(); }
};

}  // namespace holdfast::redis
