#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/redis.hpp>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::redis {

// How a call finds the master of its slot. Pure machines: they are told what happened and when, and answer
// what to do. A driver (Router) owns the connections and the map.

/// In place of a host: the cluster prefers names, and the node has none.
inline constexpr std::string_view no_name = "?";

/// What an error reply says about the place of a call's keys.
struct Redirection {
  enum class Kind : std::uint8_t {
    none,       ///< it is an answer
    moved,      ///< another node has the slot
    ask,        ///< this key is, or would be, at another node already: the slot is on its way there
    try_again,  ///< some of the keys are here and some there
    /// A script reached for a key that is not here any more. Parts of the script may have been carried out.
    script_cut,
    down,  ///< the cluster does not serve this slot at the moment
  };
  Kind kind = Kind::none;
  std::uint16_t slot = 0;  ///< for moved and ask
  RedisAddress address{};  ///< for moved and ask, as announced; an empty host is the host that was asked
  bool is_known = true;    ///< false: the node has no name, so its address is not known from this
};
[[nodiscard]] Redirection redirection_of(const redisReply& reply);

/// The route of one call: where to send it next, until it is answered. The caller ends it at its deadline,
/// which bounds the number of redirections.
class CallRoute {
 public:
  struct Deliver {};  ///< the answer, or the error, is the call's
  struct SendTo {     ///< at once
    RedisAddress announced;
    bool asking = false;  ///< behind an ASKING
  };
  /// Begins again, at the owner of its slot, when a map has come that was asked for from now on.
  struct AfterRefresh {};
  /// Begins again after this time.
  struct Pause {
    BootClock::duration length;
  };
  using Step = std::variant<Deliver, SendTo, AfterRefresh, Pause>;

  /// `carries_epoch`: its fence floor is the epoch of the owner, so a MOVED alone does not say enough.
  explicit CallRoute(bool carries_epoch) noexcept : carries_epoch_(carries_epoch) {}

  /// A reply came. `random` is in [0, 1).
  [[nodiscard]] Step answered(const Redirection& redirection, double random);
  /// No connection to the node could be made.
  [[nodiscard]] static Step lost() noexcept { return AfterRefresh{}; }

 private:
  [[nodiscard]] Pause pause(double random) noexcept;

  bool carries_epoch_;
  std::uint8_t hops_ = 0;    ///< since it last began at the owner
  std::uint8_t pauses_ = 0;  ///< in a row
};

/// When to ask for a new map, and which node. Of several wishes during one question the next question is the
/// answer: what was asked before a wish may be older than the reason for it.
class MapRefresh {
 public:
  /// The number of the question that will satisfy a wish.
  using Ticket = std::uint64_t;
  struct Ask {
    std::size_t candidate;
  };
  struct Idle {
    BootTime until;  ///< `never`: until the next wish
  };
  using Step = std::variant<Ask, Idle>;

  /// `preferred`: the node that knows best, if a redirection named it; else `no_preference`.
  static constexpr std::size_t no_preference = static_cast<std::size_t>(-1);
  Ticket wish(std::size_t preferred = no_preference) noexcept;
  /// The last map did not help: the next is another node's. A master that is cut off from the others keeps
  /// answering that it has its slots.
  Ticket wish_of_another() noexcept;
  /// Call again after every other event. The nodes whose number is `useful` can be asked.
  [[nodiscard]] Step next(BootTime now, const std::vector<bool>& useful) noexcept;
  /// `changed`: some slot has another owner, or some owner another epoch.
  void succeeded(bool changed, BootTime now, double random) noexcept;
  /// That many nodes can be asked.
  void failed(BootTime now, std::size_t useful, double random) noexcept;

  /// Questions up to this one are answered.
  [[nodiscard]] Ticket answered() const noexcept { return answered_; }
  [[nodiscard]] bool asking() const noexcept { return asking_; }

 private:
  [[nodiscard]] BootClock::duration pause(double random) noexcept;

  Ticket wished_ = 0;  ///< the highest ticket
  Ticket asked_ = 0;   ///< the ticket of the question under way, or of the last one
  Ticket answered_ = 0;
  bool asking_ = false;
  std::size_t preferred_ = no_preference;
  bool of_another_ = false;
  std::size_t candidate_ = 0;  ///< answered last, or is next
  std::size_t failures_ = 0;   ///< in a row
  BootTime not_before_{};
  BootClock::duration delay_ = shortest;

  static constexpr BootClock::duration shortest = std::chrono::milliseconds(10);
  static constexpr BootClock::duration longest = std::chrono::milliseconds(500);
};

}  // namespace holdfast::redis
