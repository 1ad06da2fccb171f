#include "engine/redis/doctor/sentinels.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/doctor/observations.hpp"
#include "engine/redis/doctor/trial.hpp"
#include "engine/redis/wire/errors.hpp"

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

/// Notes the rule that the user lacks, if that is what the reply says.
void note_refusal(SentinelReport& one, std::string_view command, const redisReply& reply,
                  const std::string& channel = {}) {
  const auto text = text_of(reply);
  if (!is_error(reply) || !text.starts_with("NOPERM")) return;
  const bool is_channel = !channel.empty() && text.find("channel") != std::string_view::npos;
  auto rule = is_channel ? "&" + channel : "+" + acl_name_of(command);
  if (std::ranges::find(one.missing, rule) == one.missing.end()) one.missing.push_back(std::move(rule));
}

/// Tries the rights that no answer shows.
void try_rights(SentinelReport& one, const std::shared_ptr<const Endpoint>& endpoint, Line& line) {
  note_refusal(one, "PING", *line.ask({"PING"}));
  const auto name = endpoint->options().client_name.value_or("holdfast");
  note_refusal(one, "CLIENT SETNAME", *line.ask({"CLIENT SETNAME", name}));
  Line listener(endpoint);
  for (const std::string channel : {switch_channel, promotion_channel}) {
    note_refusal(one, "SUBSCRIBE", *listener.ask({"SUBSCRIBE", channel}), channel);
  }
}

SentinelReport ask_sentinel(const RedisOptions& options, const RedisAddress& sentinel) {
  const auto address = to_text(sentinel);
  const auto endpoint = Endpoint::from(options_of_sentinel(options, sentinel), {}, Servers::sentinel);
  if (!endpoint) return {.address = address, .answer = endpoint.error()};
  try {
    Line line(*endpoint);
    const auto reply = line.ask({"SENTINEL MASTER", options.sentinel_service});
    SentinelReport one{.address = address, .answer = read_sentinel_answer(*reply, options.sentinel_service)};
    const auto quorum = line.ask({"SENTINEL CKQUORUM", options.sentinel_service});
    if (!text_of(*quorum).starts_with("NOPERM")) one.quorum = text_of(*quorum);
    note_refusal(one, "SENTINEL CKQUORUM", *quorum);
    const auto id = line.ask({"SENTINEL MYID"});
    if (!is_error(*id)) one.id = text_of(*id);
    note_refusal(one, "SENTINEL MYID", *id);
    try_rights(one, *endpoint, line);
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

std::string joined_names(const auto& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// What is lost without a rule; a channel is of no use without the command, and the other way round.
const SentinelRight& right_of(std::string_view rule) {
  const auto rights = sentinel_rights();
  const auto found = std::ranges::find_if(rights, [&](const SentinelRight& right) {
    return rule.starts_with('&') ? right.command == "SUBSCRIBE" : rule == "+" + acl_name_of(right.command);
  });
  return found == rights.end() ? rights.back() : *found;
}

/// Adds to the list of findings, step by step.
class SentinelJudge {
 public:
  SentinelJudge(const RedisOptions& options, const Observations& seen)
      : options_(options), seen_(seen), all_(seen.sentinels.all) {}

  std::vector<Finding> findings() && {
    agreement();
    answers();
    rights();
    identities();
    replicas();
    epoch();
    if (seen_.sentinels.min_replicas == "0") {
      add(Severity::note,
          "min-replicas-to-write is 0: a master that has lost its replicas still grants locks, which a "
          "failover loses",
          "CONFIG SET min-replicas-to-write 1, and a small min-replicas-max-lag");
    }
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string found, std::string advice = {}) {
    findings_.push_back({severity, "sentinels", std::move(found), std::move(advice)});
  }

  /// The addresses in the URL, by the id of the sentinel; without those whose id is not known.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> by_id() const {
    std::map<std::string, std::vector<std::string>> addresses;
    for (const auto& one : all_) {
      if (!one.id.empty()) addresses[one.id].push_back(one.address);
    }
    return addresses;
  }
  /// How many sentinels these are, each counted once.
  [[nodiscard]] std::size_t different(std::size_t named) const {
    for (const auto& [id, addresses] : by_id()) named -= addresses.size() - 1;
    return named;
  }

  void agreement() {
    std::set<std::string> masters;
    std::size_t answered = 0;
    bool has_quorum = false, lacks_quorum = false;
    for (const auto& one : all_) {
      if (!one.answer) continue;
      ++answered;
      masters.insert(text_of_master(one.answer->master));
      has_quorum |= one.quorum.starts_with("OK");
      lacks_quorum |= one.quorum.starts_with("NOQUORUM");
    }
    if (masters.size() > 1) {
      add(Severity::problem, "the sentinels disagree on the master: " + joined_names(masters),
          "wait for a failover to end; if they still disagree, run SENTINEL RESET on those that are wrong");
    } else if (!masters.empty()) {
      const auto count = different(answered);
      add(Severity::ok,
          std::to_string(count) + (count == 1 ? " sentinel names" : " sentinels name") + " the master " +
              *masters.begin() +
              (has_quorum && !lacks_quorum && has_successor() ? ", and can elect another" : ""));
    }
  }

  void answers() {
    for (const auto& one : all_) {
      if (!one.answer) {
        add(Severity::warning, "sentinel " + one.address + " cannot be used: " + one.answer.error().message(),
            is_refused_user(one.answer.error())
                ? "create the user of the others there too (ACL SETUSER, then ACL SAVE): sentinels share no "
                  "users"
                : "start it, or replace it in the URL");
      } else if (one.quorum.starts_with("NOQUORUM")) {
        add(Severity::problem, "sentinel " + one.address + " reports: " + one.quorum,
            "start the missing sentinels: without them no failover is possible");
      } else if (!one.quorum.empty() && !one.quorum.starts_with("OK")) {
        add(Severity::warning, "sentinel " + one.address + ": quorum not checked: " + one.quorum,
            "run SENTINEL CKQUORUM " + options_.sentinel_service + " there");
      }
    }
  }

  void rights() {
    std::map<std::string, std::vector<std::string>> lacking;  // addresses, by rule
    for (const auto& one : all_) {
      for (const auto& rule : one.missing) lacking[rule].push_back(one.address);
    }
    const auto user = options_.sentinel_user.empty() ? std::string("default") : options_.sentinel_user;
    for (const auto& [rule, addresses] : lacking) {
      const auto& right = right_of(rule);
      const auto what =
          rule.starts_with('&') ? " has no access to the channel " : " may not use the command ";
      std::string found = "user " + user + what;
      found.append(rule.substr(1))
          .append(" at the sentinel(s) ")
          .append(joined_names(addresses))
          .append(": ");
      found.append(right.lost);
      add(right.severity, std::move(found),
          std::string("ACL SETUSER ")
              .append(user)
              .append(" ")
              .append(rule)
              .append(", then ACL SAVE, at each sentinel"));
    }
  }

  void identities() {
    for (const auto& [id, addresses] : by_id()) {
      if (addresses.size() < 2) continue;
      add(Severity::warning,
          "the URL names one sentinel several times: " + joined_names(addresses) +
              ". Clients count it several times, so it can be a majority although it missed a failover",
          "name each sentinel once");
    }
    if (const auto count = different(options_.sentinels.size()); count < 3) {
      add(Severity::note,
          "the URL names " + std::to_string(count) +
              " sentinel(s): with fewer than three, clients may ask only one that missed a failover",
          "name all sentinels of the service in the URL");
    }
  }

  /// The replicas that are connected to the master; empty if that is not known.
  [[nodiscard]] std::optional<std::size_t> connected_replicas() const {
    const auto text = seen_.info.find("connected_slaves");
    if (text == seen_.info.end()) return std::nullopt;
    std::size_t connected = 0;
    (void)std::from_chars(text->second.data(), text->second.data() + text->second.size(), connected);
    return connected;
  }
  /// Those without a replica that they could promote: it is found within ten seconds.
  [[nodiscard]] std::vector<std::string> without_replicas() const {
    std::vector<std::string> addresses;
    for (const auto& one : all_) {
      if (one.answer && one.answer->replicas == 0) addresses.push_back(one.address);
    }
    return addresses;
  }
  /// Any sentinel may be the one that has to promote it.
  [[nodiscard]] bool has_successor() const {
    return connected_replicas().value_or(1) > 0 && without_replicas().empty();
  }

  void replicas() {
    const auto connected = connected_replicas();
    if (!connected) return;
    std::size_t known = 0;
    for (const auto& one : all_) {
      if (one.answer) known = std::max(known, one.answer->replicas);
    }
    if (known == 0 && *connected == 0) {
      add(Severity::warning, "the master has no replica: no failover is possible",
          "let another server follow it: REPLICAOF");
    } else if (known > *connected) {
      add(Severity::warning,
          "the sentinels know " + std::to_string(known) + " replica(s), but " + std::to_string(*connected) +
              " of them are connected to the master: " +
              (*connected == 0 ? "no failover is possible" : "fewer can replace it"),
          "start the others; if they are gone for good, run SENTINEL RESET " + options_.sentinel_service +
              " at one sentinel after the other");
    } else if (const auto unaware = without_replicas(); !unaware.empty()) {
      add(Severity::warning,
          "the sentinel(s) " + joined_names(unaware) + " know no replica: they can promote none",
          "wait ten seconds, in which sentinels find new replicas; then look at their logs");
    }
  }

  void epoch() {
    const auto epoch = seen_.sentinels.master ? seen_.sentinels.master->epoch : 0;
    const auto& counter = seen_.highest_counter;
    if (epoch > highest_epoch) {
      add(Severity::problem,
          "the epoch " + std::to_string(epoch) + " is above " + std::to_string(highest_epoch) +
              ", so it is not applied: a failover may repeat fences",
          "create the sentinels anew with current-epoch 0, and use another lock_prefix");
    } else if (counter && *counter >= (epoch + 1) * fences_per_epoch) {
      add(Severity::warning,
          "a fence counter is at " + std::to_string(*counter) + ", above all fences of the epoch " +
              std::to_string(epoch) +
              ": the sentinels have lost their state, and a failover may repeat fences until the epoch is "
              "above " +
              std::to_string(*counter / fences_per_epoch),
          "keep the configuration files of sentinels; set config-epoch and current-epoch in them before a "
          "start");
    }
  }

  const RedisOptions& options_;
  const Observations& seen_;
  const std::vector<SentinelReport>& all_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<SentinelReport> ask_sentinels(const RedisOptions& options) {
  std::vector<SentinelReport> all;
  all.reserve(options.sentinels.size());
  for (const auto& sentinel : options.sentinels) all.push_back(ask_sentinel(options, sentinel));
  return all;
}

std::vector<Finding> judge_sentinels(const RedisOptions& options, const Observations& seen) {
  if (options.sentinels.empty()) return {};
  return SentinelJudge(options, seen).findings();
}

}  // namespace holdfast::redis
