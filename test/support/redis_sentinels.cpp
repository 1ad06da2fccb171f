#include "support/redis_sentinels.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <thread>

#include "support/loopback.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

/// Generous: a loaded machine.
constexpr auto patience = 30s;

std::map<std::string, std::string> fields_of(const std::string& lines) {
  std::map<std::string, std::string> fields;
  for (std::size_t at = 0; at < lines.size();) {
    const auto end = std::min(lines.find('\n', at), lines.size());
    const auto line = lines.substr(at, end - at);
    at = end + 1;
    if (const auto colon = line.find(':'); colon != std::string::npos) {
      auto value = line.substr(colon + 1);
      if (value.ends_with('\r')) value.pop_back();
      fields[line.substr(0, colon)] = value;
    }
  }
  return fields;
}

}  // namespace

RedisSentinels::RedisSentinels(Options options) : options_(std::move(options)) {
  if (options_.tls) {
    authority_.emplace(directory_.path());
    (void)authority_->issue({.name = "server", .names = {"DNS:localhost", "IP:127.0.0.1"}});
  }
  const auto& password = options_.password;
  for (std::size_t i = 0; i <= options_.replicas; ++i) {
    RedisServer::Options one{.password = password, .config = options_.config};
    one.config.emplace_back("repl-diskless-sync no");  // which would stream nothing for a second
    if (!password.empty()) one.config.push_back("masterauth " + password);
    if (i > 0) one.config.push_back("replicaof 127.0.0.1 " + std::to_string(port_of(*servers_.front())));
    servers_.push_back(start(std::move(one)));
  }
  const std::string name(service);
  for (std::size_t i = 0; i < sentinel_count; ++i) {
    RedisServer::Options one{.password = options_.sentinel_password, .sentinel = true};
    one.config = {
        "sentinel monitor " + name + " 127.0.0.1 " + std::to_string(port_of(*servers_.front())) + " 2",
        "sentinel down-after-milliseconds " + name + " " + std::to_string(options_.down_after.count()),
        "sentinel failover-timeout " + name + " 1500", "sentinel parallel-syncs " + name + " 5"};
    if (!password.empty()) one.config.push_back("sentinel auth-pass " + name + " " + password);
    if (!options_.sentinel_password.empty())
      one.config.push_back("sentinel sentinel-pass " + options_.sentinel_password);
    sentinels_.push_back(start(std::move(one)));
  }
  set_periods({"publish-period", "50", "info-period", "300", "ping-period", "200", "tilt-period", "500"});
  wait("the servers do not settle", [&] { return is_settled(); });
  settle();
  servers_.front()->wait_for_replicas(options_.replicas);
}

std::unique_ptr<RedisServer> RedisSentinels::start(RedisServer::Options options) {
  if (!options_.tls) return std::make_unique<RedisServer>(std::move(options));
  const auto port = free_loopback_port();
  options.config.push_back("tls-port " + std::to_string(port));
  options.config.push_back("tls-cert-file " + (directory_ / "server.crt").string());
  options.config.push_back("tls-key-file " + (directory_ / "server.key").string());
  options.config.push_back("tls-ca-cert-file \"" + authority_->file().string() + "\"");
  options.config.emplace_back("tls-auth-clients no");
  options.config.emplace_back("tls-replication yes");
  auto made = std::make_unique<RedisServer>(std::move(options));
  tls_ports_[made.get()] = port;
  return made;
}

std::uint16_t RedisSentinels::port_of(const RedisServer& server) const {
  return options_.tls ? tls_ports_.at(&server) : server.port();
}

void RedisSentinels::set_periods(const std::vector<std::string>& names_and_milliseconds) {
  std::vector<std::string> command{"SENTINEL", "DEBUG"};
  command.insert(command.end(), names_and_milliseconds.begin(), names_and_milliseconds.end());
  for (const auto& one : sentinels_) {
    if (one->is_running()) (void)one->raw().command(command);
  }
}

RedisOptions RedisSentinels::client() const {
  RedisOptions options;
  for (const auto& one : sentinels_)
    options.sentinels.push_back({.host = "127.0.0.1", .port = port_of(*one)});
  options.sentinel_service = service;
  options.sentinel_password = options_.sentinel_password;
  options.password = options_.password;
  options.tls = options_.tls;
  if (options_.tls) options.tls_ca_file = authority_->file();
  return options;
}

std::string RedisSentinels::url() const {
  return redis_url(client());
}

std::vector<RedisSentinels::View> RedisSentinels::views() const {
  std::vector<View> views;
  for (const auto& one : sentinels_) {
    if (!one->is_running()) continue;
    const auto reply = one->raw().command({"SENTINEL", "MASTER", service});
    const auto parts = redis::elements_of(*reply);
    std::map<std::string, std::string> fields;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      fields[std::string(redis::text_of(*parts[i]))] = redis::text_of(*parts[i + 1]);
    }
    views.push_back({.port = fields["port"],
                     .epoch = std::stoull("0" + fields["config-epoch"]),
                     .flags = fields["flags"],
                     .replicas = std::stoull("0" + fields["num-slaves"]),
                     .sentinels = std::stoull("0" + fields["num-other-sentinels"])});
  }
  return views;
}

void RedisSentinels::wait(const std::string& what, const std::function<bool()>& done) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto is_done = [&] {
    try {
      return done();
    } catch (const std::runtime_error&) {
      return false;  // a server that becomes a replica drops its connections
    }
  };
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > end) {
      std::string logs;
      for (const auto& one : sentinels_) logs += one->log() + "\n";
      throw std::runtime_error(what + ":\n" + logs);
    }
    std::this_thread::sleep_for(5ms);
  }
}

std::size_t RedisSentinels::master() const {
  std::size_t found = 0;
  wait("the sentinels do not agree on a master", [&] {
    std::map<std::string, std::size_t> votes;
    for (const auto& view : views()) {
      if (++votes[view.port] < 2) continue;
      for (found = 0; found < servers_.size(); ++found) {
        if (std::to_string(port_of(*servers_[found])) == view.port) return true;
      }
    }
    return false;
  });
  return found;
}

std::uint64_t RedisSentinels::epoch() const {
  std::uint64_t highest = 0;
  for (const auto& view : views()) highest = std::max(highest, view.epoch);
  return highest;
}

std::size_t RedisSentinels::pause_master() {
  const auto number = master();
  servers_[number]->pause();
  for (const auto& one : sentinels_) {
    one->raw().text(
        {"SENTINEL", "SET", service, "down-after-milliseconds", std::to_string(soon_down.count())});
  }
  return number;
}

void RedisSentinels::fail_over() {
  const auto former = master();
  const auto& leader = sentinels_.front();
  auto again_at = std::chrono::steady_clock::now();
  wait("no planned failover succeeds", [&] {
    if (std::chrono::steady_clock::now() >= again_at) {
      (void)leader->raw().command({"SENTINEL", "FAILOVER", service});
      again_at += 2s;  // it is given up if no replica was heard of lately
    }
    return master() != former;
  });
}

std::size_t RedisSentinels::wait_for_another_master(std::size_t former) {
  std::size_t now = former;
  wait("there is no other master", [&] {
    now = master();
    return now != former;
  });
  return now;
}

bool RedisSentinels::is_settled() const {
  const auto views = this->views();
  for (const auto& view : views) {
    if (view.flags != "master" || view.port != views.front().port || view.epoch != views.front().epoch ||
        view.sentinels + 1 < sentinels_.size() || view.replicas + 1 < servers_.size()) {
      return false;
    }
  }
  for (const auto& one : servers_) {
    if (!one->is_running()) continue;
    const auto info = fields_of(one->raw().text({"INFO", "replication"}));
    const bool is_master = std::to_string(port_of(*one)) == views.front().port;
    if (info.at("role") != (is_master ? "master" : "slave")) return false;
    if (!is_master && (info.at("master_link_status") != "up" || info.at("master_port") != views.front().port))
      return false;
  }
  return true;
}

void RedisSentinels::settle() {
  // Not less: a promoted replica is made a replica again by sentinels that hear of it only four of these
  // periods later.
  set_periods({"publish-period", "500", "info-period", "300", "ping-period", "200"});
  wait("the servers do not settle", [&] { return is_settled(); });
  if (!options_.hurry) set_periods({"publish-period", "2000", "info-period", "10000", "ping-period", "1000"});
}

}  // namespace holdfast::test
