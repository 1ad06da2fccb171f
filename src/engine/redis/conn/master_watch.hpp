#pragma once

#include <atomic>
#include <holdfast/clock.hpp>
#include <mutex>
#include <optional>

#include "engine/redis/conn/backoff.hpp"
#include "engine/redis/conn/discovery_fsm.hpp"
#include "engine/redis/conn/server_dialer.hpp"

namespace holdfast::redis {

class Endpoint;

inline constexpr const char* switch_channel = "+switch-master";
/// The leader of a failover reports the switch only when all replicas follow the new master: a second after
/// the promotion, and after all other sentinels.
inline constexpr const char* promotion_channel = "+promoted-slave";

/// The sentinels of an endpoint, as all its connections see them: which one to ask first, the newest master,
/// and one subscription to switches of the master. The subscription has no thread of its own: a thread that
/// waits for the master's replies polls it too, and a connection that was idle looks at it before it is used.
/// A switch is only a hint to leave; discovery decides where to go. Thread-safe.
class MasterWatch {
 public:
  explicit MasterWatch(const Endpoint& endpoint);
  MasterWatch(const MasterWatch&) = delete;
  MasterWatch& operator=(const MasterWatch&) = delete;

  /// What to poll for, and when to call `step` without input.
  struct Plan {
    int descriptor = -1;
    short events = 0;
    BootTime until = never;
  };

  /// Runs `work(memory)` with the memory of the sentinels.
  template <class Work>
  auto with_memory(Work&& work) {
    const std::lock_guard lock(mutex_);
    return work(memory_);
  }
  /// A connection to this master was made. `subscription`, if any, is to a sentinel that named it. If its
  /// epoch is a new one, that is a switch for all other connections: they must not be used any more, although
  /// no message has come. Returns whether it is new.
  bool used(const NamedMaster& master, std::optional<Connection> subscription, BootTime now);

  /// Reads the subscription if it is `ready`, and keeps it alive. Never blocks.
  Plan step(BootTime now, bool ready);

  /// How many times another server than the newest master became the master. A connection that was dialled
  /// before the last one should be left.
  [[nodiscard]] std::uint64_t switches() const noexcept { return switches_.load(); }
  /// The epoch of the newest master.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(); }

  /// What a connection to a sentinel asks, and the number of replies: for the master, and to subscribe. Both
  /// in one write, so that no switch falls between them.
  [[nodiscard]] static std::string question(const std::string& service);
  static constexpr std::size_t answers = 3;
  /// Of these, the one that confirms the subscription to switches.
  static constexpr std::size_t subscribed = 1;

 private:
  std::optional<std::size_t> read();
  void take_message(const redisReply& reply);
  void dial(BootTime now);
  void lose(BootTime now);

  const Endpoint& endpoint_;
  std::mutex mutex_;
  SentinelMemory memory_;
  std::atomic<std::uint64_t> switches_ = 0;
  std::atomic<std::uint64_t> epoch_ = 0;
  std::optional<Connection> subscription_;
  BootTime heard_at_{};          ///< when input last came, or was last asked for
  std::optional<BootTime> due_;  ///< when the answer to a probe must have come
  std::optional<ServerDialer> dialer_;
  ServerDialer::PendingIo dial_wait_{};
  std::size_t next_sentinel_ = 0;  ///< in the memory's order
  BootTime redial_at_{};
  Backoff backoff_;
};

}  // namespace holdfast::redis
