#include "engine/redis/doctor/sentinels.hpp"

#include <algorithm>
#include <set>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/doctor/trial.hpp"
#include "engine/redis/errors.hpp"

namespace holdfast::redis {
namespace {

/// A connection to one sentinel, as to a server of one address.
RedisOptions options_of_sentinel(const RedisOptions& options, const RedisAddress& sentinel) {
  auto one = options;
  one.host = sentinel.host;
  one.port = sentinel.port;
  one.user = options.sentinel_user;
  one.password = options.sentinel_password;
  one.password_file = options.sentinel_password_file;
  one.db = 0;
  one.sentinels.clear();
  return one;
}

SentinelObservations::One ask_sentinel(const RedisOptions& options, const RedisAddress& sentinel) {
  const auto address = to_text(sentinel);
  const auto endpoint = Endpoint::from(options_of_sentinel(options, sentinel), {}, Servers::sentinel);
  if (!endpoint) return {.address = address, .answer = endpoint.error()};
  try {
    Line line(*endpoint);
    const auto reply = line.ask({"SENTINEL MASTER", options.sentinel_service});
    SentinelObservations::One one{.address = address,
                                  .answer = read_sentinel_answer(*reply, options.sentinel_service)};
    const auto quorum = line.ask({"SENTINEL CKQUORUM", options.sentinel_service});
    if (!text_of(*quorum).starts_with("NOPERM")) one.quorum = text_of(*quorum);
    return one;
  } catch (const Error& error) {
    // The finding names the sentinel itself.
    const auto name = (*endpoint)->name() + ": ";
    const auto& message = error.message();
    return {.address = address,
            .answer = Error(error.code(), message.starts_with(name) ? message.substr(name.size()) : message,
                            error.cause())};
  }
}

std::string text_of_master(const NamedMaster& master) {
  return to_text(master.address) + " (epoch " + std::to_string(master.epoch) + ")";
}

}  // namespace

std::vector<SentinelObservations::One> ask_sentinels(const RedisOptions& options) {
  std::vector<SentinelObservations::One> all;
  all.reserve(options.sentinels.size());
  for (const auto& sentinel : options.sentinels) all.push_back(ask_sentinel(options, sentinel));
  return all;
}

std::vector<Finding> judge_sentinels(const RedisOptions& options, const SentinelObservations& seen) {
  std::vector<Finding> findings;
  if (options.sentinels.empty()) return findings;
  const auto add = [&](Severity severity, std::string found, std::string advice = {}) {
    findings.push_back({severity, "sentinels", std::move(found), std::move(advice)});
  };
  std::set<std::string> masters;
  for (const auto& one : seen.all) {
    if (!one.answer) {
      add(Severity::warning, "sentinel " + one.address + " cannot be used: " + one.answer.error().message(),
          "start it, or replace it in the URL");
      continue;
    }
    masters.insert(text_of_master(one.answer->master));
    if (one.quorum.starts_with("NOQUORUM")) {
      add(Severity::problem, "sentinel " + one.address + " reports: " + one.quorum,
          "start the missing sentinels: without them no failover is possible");
    }
  }
  if (masters.size() > 1) {
    std::string list;
    for (const auto& master : masters) list += (list.empty() ? "" : ", ") + master;
    add(Severity::problem, "the sentinels disagree on the master: " + list,
        "wait for a failover to end; if they still disagree, run SENTINEL RESET on those that are wrong");
  }
  if (options.sentinels.size() < 3) {
    add(Severity::note,
        "the URL names " + std::to_string(options.sentinels.size()) +
            " sentinel(s): with fewer than three, clients may ask only one that missed a failover",
        "name all sentinels of the service in the URL");
  }
  const auto epoch = seen.master ? seen.master->epoch : 0;
  if (epoch > highest_epoch) {
    add(Severity::problem,
        "the epoch " + std::to_string(epoch) + " is above " + std::to_string(highest_epoch) +
            ", so it is not applied: a failover may repeat fences",
        "create the sentinels anew with current-epoch 0, and use another lock_prefix");
  } else if (seen.highest_counter && *seen.highest_counter >= (epoch + 1) * fences_per_epoch) {
    add(Severity::warning,
        "a fence counter is at " + std::to_string(*seen.highest_counter) +
            ", above all fences of the epoch " + std::to_string(epoch) +
            ": the sentinels have lost their state, and a failover may repeat fences until the epoch is "
            "above " +
            std::to_string(*seen.highest_counter / fences_per_epoch),
        "keep the configuration files of sentinels; set config-epoch and current-epoch in them before a "
        "start");
  }
  if (seen.min_replicas == "0") {
    add(Severity::note,
        "min-replicas-to-write is 0: a master that has lost its replicas still grants locks, which a "
        "failover "
        "loses",
        "CONFIG SET min-replicas-to-write 1, and a small min-replicas-max-lag");
  }
  if (findings.empty()) {
    add(Severity::ok, std::to_string(seen.all.size()) + " sentinels name the master " +
                          (masters.empty() ? "" : *masters.begin()) + ", and can elect another");
  }
  return findings;
}

}  // namespace holdfast::redis
