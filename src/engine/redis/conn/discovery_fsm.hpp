#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/redis/conn/findings.hpp"

namespace holdfast::redis {

/// "host:port", an IPv6 address in brackets: for messages.
[[nodiscard]] std::string to_text(const RedisAddress& address);

/// A master and the epoch of the configuration that made it the master: one pair, from one answer of one
/// sentinel. Parts of two answers must not be combined: an old master with a new epoch would grant fences
/// that belong to the new master.
struct NamedMaster {
  RedisAddress address = {};
  std::uint64_t epoch = 0;
  friend bool operator==(const NamedMaster&, const NamedMaster&) = default;
};

/// A sentinel's answer.
struct SentinelAnswer {
  NamedMaster master = {};
  /// The sentinels agree that the master is down: a failover follows.
  bool is_down = false;
  /// The replicas of this master that the sentinel knows, also those that are gone.
  std::size_t replicas = 0;
};

/// Interprets the reply to SENTINEL MASTER. InvalidArgument if the sentinel does not know the service,
/// AuthFailed for a missing right, ServiceUnavailable for a sentinel that has promoted a replica and not
/// finished the failover: it shows the new epoch with the old address.
[[nodiscard]] Result<SentinelAnswer> read_sentinel_answer(const redisReply& reply, std::string_view service);

/// What the connections of an endpoint have learned about its sentinels. Not thread-safe.
class SentinelMemory {
 public:
  explicit SentinelMemory(std::size_t sentinels);

  /// Numbers of the sentinels, in the order to ask them: those that answered last come first, those that are
  /// being asked or did not answer come last. So an attempt that ends before its sentinel answers is not
  /// followed by one that begins with the same.
  [[nodiscard]] const std::vector<std::size_t>& order() const noexcept { return order_; }
  void asked(std::size_t sentinel);
  void answered(std::size_t sentinel);

  /// The newest master that a connection was made to.
  [[nodiscard]] const std::optional<NamedMaster>& newest() const noexcept { return newest_; }
  /// False for a master that is older than that one: its sentinel has missed a failover.
  [[nodiscard]] bool is_current(const NamedMaster& master) const noexcept;
  void used(const NamedMaster& master);

 private:
  std::vector<std::size_t> order_;
  std::optional<NamedMaster> newest_;
};

/// One attempt to find and reach the master. Asks one sentinel after another until a majority has named a
/// master, or all were asked; the highest epoch wins. If that master cannot be used, the remaining sentinels
/// are asked for a newer one. Each step gets an equal share of the time that is left; but a sentinel that is
/// silent, as its host may be that of the lost master, is left after `quick_answer`, and asked again when all
/// others were. Pure.
class Discovery {
 public:
  struct Ask {
    std::size_t sentinel;
    BootTime until;
  };
  struct Dial {
    NamedMaster master;
    BootTime until;
  };
  using Action = std::variant<Ask, Dial, Error>;

  /// Several round trips, with TLS, to a distant sentinel that works.
  static constexpr std::chrono::milliseconds quick_answer{400};

  /// `options` must outlive it.
  Discovery(const RedisOptions& options, const SentinelMemory& memory, BootTime deadline);

  [[nodiscard]] Action start(BootTime now);
  /// The sentinel's answer, or why there is none.
  [[nodiscard]] Action on_answer(SentinelMemory& memory, const Result<SentinelAnswer>& answer, BootTime now);
  /// The master could not be reached, or is not a master.
  [[nodiscard]] Action on_master_failed(const Error& error, BootTime now);

 private:
  [[nodiscard]] Action next(BootTime now);
  [[nodiscard]] bool has_untried_master() const noexcept;
  [[nodiscard]] BootTime share_of(BootTime now, std::size_t steps) const noexcept;
  void note(std::string_view kind, const RedisAddress& where, const Error& error);
  [[nodiscard]] Error failure() const;

  const RedisOptions& options_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> silent_;  ///< of the first pass
  const std::size_t majority_;
  bool second_pass_ = false;
  const BootTime deadline_;
  std::size_t asked_ = 0;  ///< sentinels
  std::size_t named_ = 0;  ///< of these, the ones that named a master
  std::optional<SentinelAnswer> best_;
  std::optional<NamedMaster> tried_;
  Findings findings_;                   ///< of all steps, for the error
  std::optional<ErrorCode> permanent_;  ///< of the last step that another attempt would not help
  bool any_transient_ = false;
};

}  // namespace holdfast::redis
