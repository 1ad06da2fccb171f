#pragma once

#include <functional>
#include <holdfast/lock_backend.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "support/redis_server.hpp"

namespace holdfast::test {

/// How often each kind of failover happens; HOLDFAST_FAILOVERS=20 for a measurement.
[[nodiscard]] int failover_rounds();

/// All grants of all keys, from the clients and from the servers' files. Thread-safe.
class GrantLedger {
 public:
  void add(const std::string& key, std::uint64_t fence, const std::string& id);
  /// A client holds the lock, and can prove it until then.
  void hold(const std::string& key, std::uint64_t fence, BootTime until);
  void end(const std::string& key, std::uint64_t fence);
  /// Every grant that a server has ever written to its append-only file, also those whose reply was lost. Of
  /// the documented layout.
  void read_file_of(const RedisServer& server);

  [[nodiscard]] std::size_t grants() const { return grants_.size(); }
  [[nodiscard]] std::size_t repeated() const { return repeated_.size(); }
  /// Grants while another client could still prove that it holds the lock. What the lock protects tells the
  /// two apart, because no fence is granted twice.
  [[nodiscard]] int overlaps() const { return overlaps_; }

 private:
  void read(const std::string& text);

  std::mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, std::string> grants_;
  std::set<std::pair<std::string, std::uint64_t>> repeated_;
  std::map<std::string, std::map<std::uint64_t, BootTime>> holds_;
  int overlaps_ = 0;
};

/// A kind of failover, of any topology.
struct FailoverKind {
  std::string name;
  /// A new client of the servers.
  std::function<std::shared_ptr<LockBackend>()> open;
  /// Returns when every replica has every lock.
  std::function<void()> replicate;
  /// Takes the master away; returns when there is another one.
  std::function<void()> fail_over;
  /// Brings the old master back; returns when it is a replica.
  std::function<void()> restore;
  /// Reads the servers' files into the ledger: before the old master rejoins, and forgets what only it had.
  std::function<void(GrantLedger&)> read_files = [](GrantLedger&) {};
  /// A lock with this name in front is on the master that fails.
  std::string key_prefix = {};
  /// The old master grants nothing that the new one lacks: then there are no overlapping holds either.
  bool loses_nothing = false;
};

/// Lets clients and guards work while the master fails over, failover_rounds() times. Expects that no fence
/// is granted twice, that no guard is lost and that every client works again, and prints what was measured.
void fail_over_under_load(const FailoverKind& kind);

}  // namespace holdfast::test
