#pragma once

#include <sys/types.h>

#include <chrono>
#include <holdfast/clock.hpp>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.hpp"
#include "keeper_protocol.hpp"
#include "signals.hpp"

namespace holdfast::cli {

/// One of the command's descriptors, in place of the one it would inherit.
struct Redirection {
  int from = -1;  ///< ours, 10 or higher, so that no redirection is in another's way
  int to = -1;    ///< the command's, below 10
};

/// How the command is to be run and ended.
struct KeeperPlan {
  std::vector<std::string> command;  ///< not empty
  /// Between TERM and KILL; also how long before the lease's end TERM is sent.
  std::chrono::nanoseconds grace{};
  /// KILL is sent this long before the lease's end at the latest, so that nobody outlives it.
  std::chrono::nanoseconds margin{};
  std::vector<Redirection> redirections = {};
};

/// holdfast's end of the process between it and the command.
///
/// The keeper is there because holdfast itself may die or be stopped at any moment. It is forked before the
/// engine is opened and before any thread exists; it does nothing but wait, so what makes holdfast fail
/// (memory, disk, the engine, a bug) does not touch it. It has its own process group, out of reach of what
/// the terminal or a shell does to holdfast's job, and ignores the signals that are sent to whole sessions.
/// It ends the command and every descendant when holdfast dies and before the lease ends.
class Keeper {
 public:
  /// Forks. Call it while the process has one thread.
  [[nodiscard]] static Keeper fork(const KeeperPlan& plan, const InheritedSignals& inherited);
  /// Waits, but not for long, until the keeper has ended: it would be a zombie where nobody reaps orphans, as
  /// in many containers.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Throws Error(InvalidArgument) if the environment is too long to be sent, Error(Internal) if the keeper
  /// cannot be told: then there is no command, and nobody else would say so.
  void start(BootTime deadline, const std::vector<std::string>& environment, bool give_terminal);
  /// These orders to a dead keeper vanish: next() says that it died.
  void new_deadline(BootTime deadline) noexcept;
  void signal(int number) noexcept;
  void resume() noexcept;
  void kill() noexcept;

  struct Heard {
    std::optional<keeper_protocol::Report> report;
    bool dead = false;
  };
  /// What it has said, without waiting.
  [[nodiscard]] Heard next() noexcept;

 private:
  Keeper(pid_t pid, Descriptor socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  void send(const keeper_protocol::Order& order) noexcept;

  pid_t pid_;
  Descriptor socket_;
};

}  // namespace holdfast::cli
