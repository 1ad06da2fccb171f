#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/conn/reconnect_fsm.hpp"

namespace holdfast::redis {

/// Names the server for the next connection, where several can serve it.
using PickEndpoint = std::function<std::shared_ptr<const Endpoint>()>;

/// Makes one connection after another: dials when ReconnectFsm says so, and reports to the endpoint's
/// observer.
class Connector {
 public:
  /// Nothing yet, a new connection, or why the attempt failed.
  using Outcome = std::variant<std::monostate, Connection, Error>;

  /// `pick`, if not null, is called before every attempt to connect; `endpoint` then only has the options and
  /// a name for messages.
  Connector(std::shared_ptr<const Endpoint> endpoint, ReconnectFsm::AfterAnswers after_answers,
            PickEndpoint pick = nullptr) noexcept
      : endpoint_(std::move(endpoint)), pick_(std::move(pick)), fsm_(after_answers) {}

  /// Proceeds as far as possible without blocking. Requires that there is no connection.
  [[nodiscard]] Outcome step(BootTime now, bool wanted);
  /// What to poll for before the next step; no descriptor (-1) if only the time matters.
  [[nodiscard]] Dialer::PendingIo waiting() const noexcept { return waiting_; }
  /// When to step without input, if a connection is wanted.
  [[nodiscard]] BootTime step_at() const noexcept { return dialer_ ? dialer_->deadline() : fsm_.dial_at(); }

  void answered() noexcept { fsm_.answered(); }
  void lost(const Error& why, BootTime now, bool demoted = false);
  /// Whether another connection found a replica since this one began to be made: its server may be that one.
  [[nodiscard]] bool outdated() const noexcept { return demotions_ != endpoint_->demotions(); }
  /// For a call that ends while there is no connection: why there is none, if that is known.
  [[nodiscard]] std::optional<Error> no_connection(BootTime now) const;

 private:
  static constexpr Dialer::PendingIo for_time{.descriptor = -1, .events = 0};
  void report(const std::optional<ReconnectFsm::Report>& report, BootTime now) const noexcept;

  const std::shared_ptr<const Endpoint> endpoint_;
  const PickEndpoint pick_;  ///< may be null
  ReconnectFsm fsm_;
  std::optional<Dialer> dialer_;
  Dialer::PendingIo waiting_ = for_time;
  std::uint64_t demotions_ = 0;        ///< the endpoint's count when the last attempt began
  std::uint64_t switches_ = 0;         ///< the endpoint's count at the last step
  std::uint64_t began_at_switch_ = 0;  ///< the endpoint's count when the last attempt began
};

/// Reads what has arrived, as far as it is whole replies; at most 16 buffers full, so that a peer that sends
/// endlessly does not keep its reader from checking deadlines. Returns the error if the connection broke or
/// sent bytes that are not a reply; the replies before that are valid.
[[nodiscard]] std::optional<Error> receive(Connection& connection, std::span<char> buffer,
                                           std::vector<Reply>& replies);

}  // namespace holdfast::redis
