#include "engine/redis/queue_commands.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/queue_decisions.hpp"
#include "core/storage_key.hpp"
#include "core/wall_time.hpp"
#include "embedded/scripts.hpp"
#include "engine/redis/queue_state.hpp"
#include "engine/redis/record_replies.hpp"

namespace holdfast::redis {
namespace {

/// Computed on first use, and never destroyed: as the scripts of records.
struct QueueScripts {
  Script create{embedded::queue_create_lua};
  Script claim{embedded::queue_claim_lua};
  Script claim_task{embedded::queue_claim_task_lua};
  Script renew{embedded::queue_renew_lua};
  Script end{embedded::queue_end_lua};
  Script put{embedded::queue_put_lua};
  Script count{embedded::queue_count_lua};
};
const QueueScripts& queue_scripts() {
  static const auto& all = *new QueueScripts;
  return all;
}

/// The code of a lease that was ended without a write.
constexpr std::int64_t ended_without_write = 2;
/// The code of one that was ended by an earlier copy of the request, with a result that is forgotten.
constexpr std::int64_t ended_long_ago = -7;

/// The beginning of a command; add `more_keys` keys, then the arguments.
Command begin_on_queue(const QueueClient& client, const Script& script, By by, std::string_view owner,
                       std::size_t more_keys, std::size_t arguments) {
  const auto names = client.layout.queue(owner);
  auto command = call_script(script, by, names.size() + more_keys, arguments);
  for (const auto& name : names) command.add_key(name);
  return command;
}

std::string lock_prefix(std::string_view owner) {
  return std::string("task:").append(owner).append(":");
}
/// The lock key of the task, if it is not its prefix and the task's name: then scripts cannot derive it.
std::string unusual_lock_key(const RecordKey& key) {
  auto made = core::task_lock_key(key.str());
  return made && *made != "task:" + key.str() ? *std::move(made) : std::string();
}

std::string text_of_ms(std::chrono::milliseconds length) {
  return std::to_string(std::min<std::int64_t>(length.count(), latest_ms));
}
std::string text_of_ms(const std::optional<WallTime>& time) {
  return time ? std::to_string(std::min(core::to_ms(*time), latest_ms)) : std::string();
}

constexpr std::size_t claim_arguments = 8;

/// From the part of a lock key before the task on.
void add_claim(Command& command, const QueueClient& client, std::string_view owner, const ClaimTerms& terms,
               const ClaimCall& call) {
  command.add(lock_prefix(owner)).add(client.process).add(call.waiting).add(std::to_string(call.number));
  command.add_fence_floor({}).add(terms.worker).add(text_of_ms(terms.lease));
  command.add(std::to_string(core::claim_limit(terms.limit)));
}

/// The parts of an answer before the records, and for each record: its name and the record.
constexpr std::size_t claim_head = 4, claim_step = 1 + record_parts;

/// Empty if no script returns such parts.
std::optional<ClaimAnswer> claims_of(Parts parts, std::string_view owner) {
  if (parts.size() < claim_head || (parts.size() - claim_head) % claim_step != 0) return std::nullopt;
  const auto paused = integer_of(*parts[0]);
  const auto again = integer_of(*parts[1]);
  const auto more = integer_of(*parts[2]);
  const auto taken = version_of(*parts[3]);
  if (!paused || !again || !more || !taken) return std::nullopt;
  ClaimAnswer answer;
  answer.records.paused = *paused == 1;
  answer.wakes_another = *more == 1;
  for (std::size_t at = claim_head; at < parts.size(); at += claim_step) {
    auto key = RecordKey::of(owner, text_of(*parts[at]));
    auto record = record_of(parts.subspan(at + 1, record_parts));
    if (!key || !record) return std::nullopt;
    auto& list = answer.records.claimed.size() < *taken ? answer.records.claimed : answer.records.exhausted;
    list.push_back({.key = *std::move(key), .record = *std::move(record)});
  }
  if (answer.records.claimed.size() != *taken) return std::nullopt;
  if (*taken == 0 && *again >= 0) answer.records.look_again_after = std::chrono::milliseconds(*again);
  return answer;
}

/// The first record of such parts whose field `queue` is damaged.
std::optional<Error> damaged_claim(Parts parts, std::string_view owner) {
  for (std::size_t at = claim_head; at + claim_step <= parts.size(); at += claim_step) {
    if (auto damaged = damage_of(parts.subspan(at + 1, record_parts))) {
      return cannot_be_read(std::string(owner).append(":").append(text_of(*parts[at])), *damaged);
    }
  }
  return std::nullopt;
}

}  // namespace

RoutedCommand queue_create_command(const QueueClient& client, const CreateRecord& request,
                                   const std::string& id, By by) {
  const auto& [layout, channels, process] = client;
  const auto& key = request.key;
  const auto& terms = *request.queue;
  const auto lock_key = unusual_lock_key(key);
  auto command = begin_on_queue(client, queue_scripts().create, by, key.owner(), 1, 16);
  command.add_key(layout.record(key));
  command.add(request.data.text()).add(expires_at_text(request.data)).add(key.task());
  command.add(std::to_string(core::to_ms(request.data.created_at())))
      .add(dropped_at_text(request.data))
      .add(id);
  command.add(layout.channel(key)).add(request.quota ? std::to_string(*request.quota) : std::string());
  command.add(layout.record_prefix(key.owner())).add(request.origin);
  command.add(terms_text(terms, !lock_key.empty())).add(text_of_ms(terms.not_before));
  command.add(text_of_ms(terms.max_age)).add(lock_key).add(layout.work_prefix(key.owner())).add(channels);
  return std::move(command).routed();
}

RoutedCommand claim_command(const QueueClient& client, const ClaimNext& request, const ClaimCall& call,
                            By by) {
  const auto& layout = client.layout;
  auto command = begin_on_queue(client, queue_scripts().claim, by, request.owner, 1, 5 + claim_arguments);
  command.add_key(layout.claims(request.owner, client.process, call.slot));
  command.add(layout.record_prefix(request.owner)).add(layout.channel_prefix(request.owner));
  command.add(layout.work_prefix(request.owner)).add(client.channels);
  add_claim(command, client, request.owner, request.terms, call);
  command.add(text_of_ms(request.searched));
  return std::move(command).routed();
}

Result<ClaimAnswer> claim_outcome(const redisReply& reply, const ClaimNext& request) {
  if (auto answer = claims_of(elements_of(reply), request.owner)) return *std::move(answer);
  if (auto damaged = damaged_claim(elements_of(reply), request.owner)) return *std::move(damaged);
  return not_an_outcome(reply, "claim", request.owner);
}

RoutedCommand claim_task_command(const QueueClient& client, const ClaimRecord& request, const std::string& id,
                                 By by) {
  const auto& key = request.key;
  auto command = begin_on_queue(client, queue_scripts().claim_task, by, key.owner(), 1, 8);
  command.add_key(client.layout.record(key));
  command.add(key.task()).add(lock_prefix(key.owner())).add(id).add_fence_floor({});
  command.add(request.terms.worker).add(text_of_ms(request.terms.lease));
  command.add(client.layout.record_prefix(key.owner())).add(client.layout.channel_prefix(key.owner()));
  return std::move(command).routed();
}

Result<ClaimOutcome> claim_task_outcome(const redisReply& reply, const ClaimRecord& request) {
  const auto parts = elements_of(reply);
  const auto code = parts.empty() ? std::nullopt : integer_of(*parts[0]);
  if (code == RecordCode::nothing_there) return ClaimOutcome(NoRecord{});
  if (code == 0 || code == 1) {
    if (auto record = record_of(parts.subspan(1))) {
      if (code == 0) return ClaimOutcome(NotClaimable{*std::move(record)});
      return ClaimOutcome(ClaimedRecord{.key = request.key, .record = *std::move(record)});
    }
  }
  return not_an_outcome(reply, "claim", request.key.str());
}

RoutedCommand renew_command(const QueueClient& client, const RenewLeases& request, By by) {
  auto command =
      begin_on_queue(client, queue_scripts().renew, by, request.owner, 0, 2 + 3 * request.leases.size());
  command.add(client.layout.record_prefix(request.owner)).add(text_of_ms(request.lease));
  for (const auto& lease : request.leases) {
    command.add(lease.task).add(lease.incarnation).add(lease.fence.to_string());
  }
  return std::move(command).routed();
}

Result<RenewLeases::Outcome> renew_outcome(const redisReply& reply, const RenewLeases& request) {
  const auto parts = elements_of(reply);
  RenewLeases::Outcome renewed(request.leases.size());
  bool is_outcome = !is_error(reply) && parts.size() == 2 * renewed.size();
  for (std::size_t i = 0; is_outcome && i < renewed.size(); ++i) {
    const auto lasts = integer_of(*parts[2 * i]);
    const auto version = version_of(*parts[2 * i + 1]);
    is_outcome = lasts && version;
    if (is_outcome && *lasts >= 0) {
      renewed[i] = {.is_held = true, .lasts = std::chrono::milliseconds(*lasts), .version = *version};
    }
  }
  if (is_outcome) return renewed;
  return not_an_outcome(reply, "renew", request.owner);
}

namespace {

/// Null: any version.
const ExpectedVersion* expected_of(const EndLease& request) noexcept {
  if (request.write) return &request.write->second;
  return request.expected ? &*request.expected : nullptr;
}

}  // namespace

RoutedCommand end_command(const QueueClient& client, const EndLease& request, const std::string& id,
                          const ClaimCall& call, By by) {
  const auto& layout = client.layout;
  const auto& key = request.key;
  const auto owner = key.owner();
  const auto* data = request.write ? &request.write->first : nullptr;
  const auto* expected = expected_of(request);
  const bool claims = request.then.has_value();
  auto command = begin_on_queue(client, queue_scripts().end, by, owner, claims ? 2 : 1,
                                18 + (claims ? 1 + claim_arguments : 0));
  command.add_key(layout.record(key));
  if (claims) command.add_key(layout.claims(owner, client.process, call.slot));
  command.add(key.task()).add(request.incarnation).add(id).add(layout.channel(key));
  add_token(command, request.token);
  switch (request.end) {
    case LeaseEnd::finished:
      command.add(request.max_dead ? "d" : "f");
      break;
    case LeaseEnd::retried:
      command.add("r");
      break;
    case LeaseEnd::given_back:
      command.add("g");
      break;
  }
  const bool dies = request.end == LeaseEnd::finished && request.max_dead;
  command.add(dies ? std::to_string(*request.max_dead) : text_of_ms(request.delay));
  const auto version = expected != nullptr ? std::to_string(expected->version) : std::string();
  command.add(data != nullptr ? version : std::string());
  command.add(expected != nullptr ? expected->incarnation : std::string());
  command.add(data != nullptr ? std::string_view(data->text()) : std::string_view());
  command.add(data != nullptr ? expires_at_text(*data) : std::string());
  command.add(data != nullptr ? text_of_ms(data->expires_at()) : std::string());
  command.add(layout.record_prefix(owner)).add(layout.work_prefix(owner)).add(client.channels);
  command.add(data == nullptr ? version : std::string());
  if (claims) {
    command.add(layout.channel_prefix(owner));
    add_claim(command, client, owner, *request.then, call);
  }
  return std::move(command).routed();
}

Error forgotten_end(const RecordKey& key) {
  return Error(
             ErrorCode::NetworkTimeout,
             "outcome unknown: the connection broke before the reply arrived, and the task is gone, or was "
             "claimed or changed often since. Read the task to see whether its lease was ended as requested")
      .about(key.str(), {});
}

Result<EndAnswer> end_outcome(const redisReply& reply, const EndLease& request) {
  const auto parts = elements_of(reply);
  const auto code = parts.empty() ? std::nullopt : integer_of(*parts[0]);
  const auto refused = [](EndOutcome outcome) { return EndAnswer{.ended = {.end = std::move(outcome)}}; };
  if (code == RecordCode::nothing_there) return refused(NoRecord{});
  if (code == ended_long_ago) return forgotten_end(request.key);
  if (auto refusal = refusal_by_guard<EndOutcome>(parts, request.token)) return refused(*std::move(refusal));
  if (const auto* expected = expected_of(request);
      code == RecordCode::conflict_of_put && expected != nullptr) {
    if (const auto conflict = conflict_of(parts, *expected)) return refused(*conflict);
  }
  if ((code == 1 || code == ended_without_write) && parts.size() >= 3) {
    EndAnswer answer{.ended = {.end = LeaseEnded{}}};
    const auto version = version_of(*parts[1]);
    if (code == 1 && version)
      answer.ended.end = Written{.version = *version, .incarnation = std::string(text_of(*parts[2]))};
    if (!request.then) return answer;
    if (auto next = claims_of(parts.subspan(3), request.key.owner())) {
      answer.ended.next = std::move(next->records);
      answer.wakes_another = next->wakes_another;
      return answer;
    }
  }
  return not_an_outcome(reply, "end", request.key.str());
}

RoutedCommand queue_put_command(const QueueClient& client, const PutRecord& request, const std::string& id,
                                By by) {
  const auto& layout = client.layout;
  const auto& key = request.key;
  const auto& data = request.data;
  const auto& expected = request.expected;
  auto command = begin_on_queue(client, queue_scripts().put, by, key.owner(), 1, 19);
  command.add_key(layout.record(key)).add(data.text());
  command.add(expires_at_text(data)).add(key.task()).add(std::to_string(core::to_ms(data.created_at())));
  command.add(dropped_at_text(data)).add(id).add(layout.channel(key));
  command.add(!request.fence || request.fenced_may_create ? "1" : "");
  add_token(command, request.fence);
  command.add(expected ? std::to_string(expected->version) : std::string());
  command.add(expected ? expected->incarnation : std::string());
  command.add(request.leaves_queue ? "1" : "").add(text_of_ms(data.expires_at()));
  command.add(layout.record_prefix(key.owner())).add(layout.work_prefix(key.owner())).add(client.channels);
  command.add(request.max_dead ? std::to_string(*request.max_dead) : std::string());
  return std::move(command).routed();
}

Result<PutOutcome> queue_put_outcome(const redisReply& reply, const PutRecord& request) {
  const auto parts = elements_of(reply);
  const auto code = parts.empty() ? std::nullopt : integer_of(*parts[0]);
  if (code == RecordCode::nothing_there) return NoRecord{};
  if (request.fence) {
    if (auto refused = refusal_by_guard<PutOutcome>(parts, *request.fence)) return *std::move(refused);
  }
  if (code == RecordCode::conflict_of_put && request.expected) {
    if (const auto conflict = conflict_of(parts, *request.expected)) return *conflict;
  }
  if (code == 1 && parts.size() == 3 && parts[2]->type == REDIS_REPLY_STRING) {
    if (const auto version = version_of(*parts[1])) {
      return Written{.version = *version, .incarnation = std::string(text_of(*parts[2]))};
    }
  }
  return not_an_outcome(reply, "put", request.key.str());
}

bool is_put_of_queue(const redisReply& reply) {
  const auto parts = elements_of(reply);
  return parts.size() == 2 && integer_of(*parts[0]) == RecordCode::left_its_queue;
}

namespace {

RoutedCommand count_or_configure(const QueueClient& client, std::string_view owner, std::string_view paused,
                                 std::string_view max_leased, By by) {
  auto command = begin_on_queue(client, queue_scripts().count, by, owner, 0, 5);
  command.add(client.layout.record_prefix(owner)).add(paused).add(max_leased);
  command.add(client.layout.work_prefix(owner)).add(client.channels);
  return std::move(command).routed();
}

}  // namespace

RoutedCommand count_command(const QueueClient& client, const CountQueue& request, By by) {
  return count_or_configure(client, request.owner, {}, {}, by);
}

RoutedCommand configure_command(const QueueClient& client, const ConfigureQueue& request, By by) {
  const std::string_view paused = !request.paused ? "" : *request.paused ? "1" : "0";
  const auto most = request.max_leased ? std::to_string(*request.max_leased) : std::string();
  return count_or_configure(client, request.owner, paused, most, by);
}

Result<QueueCounts> count_outcome(const redisReply& reply, std::string_view owner) {
  const auto parts = elements_of(reply);
  if (parts.size() == 12) {
    QueueCounts counts;
    const auto paused = integer_of(*parts[5]);
    bool is_outcome = paused.has_value();
    const auto count = [&](std::size_t at, std::size_t& into) {
      const auto number = version_of(*parts[at]);
      is_outcome = is_outcome && number;
      into = number.value_or(0);
    };
    count(0, counts.ready);
    count(1, counts.delayed);
    count(2, counts.leased);
    count(3, counts.exhausted);
    count(4, counts.records);
    count(9, counts.parked);
    count(10, counts.dead);
    count(11, counts.expired);
    counts.paused = paused == 1;
    const auto optional = [&](std::size_t at) -> std::optional<std::int64_t> {
      if (parts[at]->type == REDIS_REPLY_NIL) return std::nullopt;
      const auto number = number_of(*parts[at]);
      is_outcome = is_outcome && number;
      return number;
    };
    if (const auto most = optional(6)) counts.max_leased = static_cast<std::size_t>(*most);
    if (const auto time = optional(7)) counts.oldest_ready = core::from_ms(*time);
    if (const auto time = optional(8)) counts.next_due = core::from_ms(*time);
    if (is_outcome) return counts;
  }
  return not_an_outcome(reply, "count", owner);
}

}  // namespace holdfast::redis
