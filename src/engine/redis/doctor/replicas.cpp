#include "engine/redis/doctor/replicas.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/doctor/observations.hpp"
#include "engine/redis/doctor/trial.hpp"

namespace holdfast::redis {
namespace {

/// Of each command, and of the connection: a replica may be out of reach from here.
constexpr std::chrono::milliseconds longest_wait = std::chrono::seconds(1);

/// The value of `name` in `ip=10.0.0.2,port=6379,state=online`.
std::string_view value_in(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('=')) {
      return part.substr(name.size() + 1);
    }
  }
  return {};
}

ReplicaObservation ask_replica(const RedisOptions& options, const RedisAddress& announced, Servers servers,
                               const LockLayout& locks, const StorageLayout& tasks) {
  ReplicaObservation seen{.address = to_text(announced)};
  const auto endpoint = Endpoint::from(options, {}, servers);
  if (!endpoint) {
    seen.failure = endpoint.error();
    return seen;
  }
  try {
    Line line(*endpoint);
    seen.rights = RightsTrial(*endpoint, line, locks, tasks, {}).all();
  } catch (const Error& error) {
    seen.failure = error;
  }
  return seen;
}

std::string user_of(const RedisOptions& options, const Observations& seen) {
  if (!seen.user.empty()) return seen.user;
  return options.user.empty() ? "default" : options.user;
}

/// The rules that the user lacks at a replica and has at the master, and how serious that is.
struct FewerRights {
  std::string rules = {};
  Severity severity = Severity::ok;
};
FewerRights fewer_rights(const RedisOptions& options, const Observations& master,
                         const ReplicaObservation& replica) {
  const auto at_master = missing_rights(options, master);
  Observations there;
  there.in_cluster = master.in_cluster;
  there.rights = replica.rights;
  FewerRights fewer;
  for (const auto& gap : missing_rights(options, there)) {
    if (std::ranges::find(at_master, gap.rule, &MissingRight::rule) != at_master.end()) continue;
    fewer.rules += (fewer.rules.empty() ? "" : " ") + gap.rule;
    fewer.severity = std::max(fewer.severity, gap.severity);
  }
  return fewer;
}

}  // namespace

std::vector<RedisAddress> replicas_in(const Info& info) {
  std::vector<RedisAddress> addresses;
  for (std::size_t i = 0;; ++i) {
    const auto line = info.find("slave" + std::to_string(i));
    if (line == info.end()) return addresses;
    const auto port_text = value_in(line->second, "port");
    RedisAddress address{.host = std::string(value_in(line->second, "ip")), .port = 0};
    (void)std::from_chars(port_text.data(), port_text.data() + port_text.size(), address.port);
    if (!address.host.empty() && address.port != 0) addresses.push_back(std::move(address));
  }
}

bool is_refused_user(const Error& error) {
  constexpr std::array<std::string_view, 4> refusals{"WRONGPASS", "NOAUTH", "NOPERM", "ERR "};
  return error.code() == ErrorCode::AuthFailed && std::ranges::any_of(refusals, [&](std::string_view word) {
           return error.cause().starts_with(word);
         });
}

std::vector<ReplicaObservation> ask_replicas(const RedisOptions& server, const Info& info,
                                             std::span<const RedisAnnouncement> connect_to, Servers servers,
                                             const LockLayout& locks, const StorageLayout& tasks) {
  std::vector<ReplicaObservation> all;
  for (const auto& announced : replicas_in(info)) {
    if (all.size() == most_replicas) break;
    auto options = node_options(server, reached_at(announced, announced.host, connect_to), announced.host);
    options.tls_server_name = server.tls_server_name.empty() ? announced.host : server.tls_server_name;
    options.unix_socket.clear();
    options.sentinels.clear();
    options.connect_timeout = std::min(server.connect_timeout, longest_wait);
    options.command_timeout = std::min(server.command_timeout, longest_wait);
    all.push_back(ask_replica(options, announced, servers, locks, tasks));
  }
  return all;
}

std::vector<Finding> judge_replicas(const RedisOptions& options, const Observations& seen) {
  std::vector<Finding> findings;
  const auto add = [&](Severity severity, std::string found, std::string advice = {}) {
    findings.push_back({severity, "replicas", std::move(found), std::move(advice)});
  };
  const auto user = user_of(options, seen);
  std::size_t equal = 0;
  for (const auto& replica : seen.replicas) {
    if (!replica.failure) {
      const auto fewer = fewer_rights(options, seen, replica);
      if (fewer.rules.empty()) {
        ++equal;
        continue;
      }
      add(fewer.severity,
          "user " + user + " has fewer rights at the replica " + replica.address +
              ", which clients use after a failover: " + fewer.rules + " missing",
          "run the line of `holdfast doctor --acl` there too, then ACL SAVE");
    } else if (is_refused_user(*replica.failure)) {
      add(Severity::problem,
          "user " + user + " cannot log in at the replica " + replica.address + " (" +
              replica.failure->cause() + "); after a failover all clients fail",
          "create the user there too (ACL SETUSER, then ACL SAVE): Redis replicates no users");
    } else if (replica.failure->code() == ErrorCode::AuthFailed) {
      add(Severity::warning,
          "the replica " + replica.address +
              " cannot be used after a failover: " + replica.failure->message(),
          "give it a certificate that clients accept");
    } else {
      add(Severity::note,
          "the user was not checked at the replica " + replica.address + ": " + replica.failure->message(),
          "run the doctor on a machine that reaches the replica; clients need it after a failover");
    }
  }
  if (const auto named = replicas_in(seen.info).size();
      named > seen.replicas.size() && !seen.replicas.empty()) {
    add(Severity::note, "the user was checked at " + std::to_string(seen.replicas.size()) + " of " +
                            std::to_string(named) + " replicas");
  }
  if (equal > 0) {
    add(Severity::ok, "user " + user + " has the same rights at " + std::to_string(equal) + " replica(s)");
  }
  return findings;
}

}  // namespace holdfast::redis
