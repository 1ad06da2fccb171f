#include "locked_command.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <holdfast/memory.hpp>

#include "duration.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "system_error.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// The children that our process had before; from here on those to come are the command's.
std::vector<Process> become_parent_of_commands() {
  auto strangers = own_children();
  // Ignored, SIGCHLD would take the exit codes away, and SIGPIPE must not end us over a closed stderr.
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  checked(prctl(PR_SET_CHILD_SUBREAPER, 1), "cannot become a subreaper");
  return strangers;
}

std::vector<std::string> environment_for(const Guard& guard, const std::string& url) {
  const std::string id(guard.id().str());
  const char* outer = std::getenv("HOLDFAST_CHAIN");
  const std::string chain = outer == nullptr || *outer == '\0' ? id : id + " " + outer;
  return {"HOLDFAST_KEY=" + guard.key(),
          "HOLDFAST_LOCK_ID=" + id,
          "HOLDFAST_FENCE=" + guard.fence().to_string(),
          "HOLDFAST_AUTHORITY=" + guard.authority(),
          "HOLDFAST_EXPIRES_AT_MS=" + std::to_string(guard.expires_at_ms()),
          "HOLDFAST_URL=" + url,
          "HOLDFAST_CHAIN=" + chain};
}

}  // namespace

// The signals are queued after the keeper is forked, which has its own ways, and before the engine starts
// threads: they inherit the mask.
LockedCommand::LockedCommand(const std::vector<std::string>& command, const LeaseTimes& times,
                             std::vector<Redirection> redirections)
    : times_(times),
      strangers_(become_parent_of_commands()),
      keeper_(Keeper::fork({.command = command,
                            .grace = times.grace,
                            .margin = times.margin,
                            .redirections = std::move(redirections)},
                           inherited_)),
      signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2}, inherited_) {
}

std::optional<int> LockedCommand::told_to_end() noexcept {
  return signals_.take_one_of({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
}

Ending LockedCommand::run(Guard& guard, const std::string& url, EndingReport& report,
                          std::vector<std::string> environment, std::stop_token called_off) {
  held_since_ = BootClock::now();
  const auto terminal = Terminal::controlling();
  Supervisor supervisor(guard, keeper_, signals_, terminal ? &*terminal : nullptr,
                        {.ttl = times_.ttl,
                         .grace = times_.grace,
                         .margin = times_.margin,
                         .strangers = std::move(strangers_),
                         .called_off = std::move(called_off),
                         .on_survivors = [&report](const Survivors& left) { report.say_survivors(left); },
                         .on_refused_signal = [&report](int signal) { report.say_not_forwarded(signal); }});
  for (auto& one : environment_for(guard, url)) environment.push_back(std::move(one));
  return supervisor.run(environment);
}

void warn_of_private_locks(Holdfast& holdfast) {
  if (holdfast.locks().capabilities().backend == memory_capabilities.backend) {
    complain("warning: memory: is private to this process, so the lock keeps nobody out; use sqlite:PATH");
  }
}

void EndingReport::tell(std::string_view code, const std::string& message) const {
  if (json_) {
    complain_json(code, message);
  } else {
    complain(message);
  }
}

int EndingReport::exec_failed(const std::string& command, int error) const {
  tell("InvalidArgument", "cannot run " + quote(command) + " " + subject_.running + ": " +
                              (error == ENOENT ? "not found (no shell is implied; use sh -c '...' for one)"
                                               : std::strerror(error)));
  return error == ENOENT ? exit_not_found : exit_cannot_execute;
}

void EndingReport::say_loss(const Ending& ending, std::optional<LossReason> reason, nanoseconds held) const {
  // Of survivors that were found earlier it is known that they are gone, not why.
  const std::string and_the_command = ending.survivors.any() ? "; the command could not be ended"
                                      : said_survivors_      ? "; the command has ended meanwhile"
                                                             : "; the command was ended";
  if (ending.kind == Ending::Kind::keeper_died) {
    tell("Internal", "the process that watches over the command was killed" + and_the_command);
    return;
  }
  // Near its end the keeper acts by the clock, before the guard says why.
  const bool held_too_long = reason == LossReason::max_hold ||
                             (!reason && times_.max_hold > milliseconds::zero() &&
                              held + times_.grace + times_.margin + milliseconds(100) >= times_.max_hold);
  std::string why =
      "its lease could not be renewed in time (the store did not answer, or this process was suspended)";
  if (held_too_long) {
    why = "it was held for the --max-hold of " + describe(times_.max_hold);
  } else if (reason == LossReason::gone) {
    why = "somebody else released it or took it over, or its store was lost";
  }
  tell("LockLost", "lost " + subject_.noun + ": " + why + and_the_command);
}

void EndingReport::say_survivors(const Survivors& survivors) {
  if (!said_survivors_) tell("Internal", describe(survivors));
  said_survivors_ = true;
}

void EndingReport::say_not_forwarded(int signal) const {
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGQUIT) return;
  tell("Internal",
       "SIG" + std::string(sigabbrev_np(signal)) +
           " was not forwarded: the command runs as another user. It goes on, and the lock is kept");
}

bool EndingReport::taken_away(const Ending& ending, std::optional<LossReason> reason,
                              bool was_held) noexcept {
  return reason == LossReason::gone || (!was_held && BootClock::now() < ending.proven_until);
}

void EndingReport::say_taken_away() const {
  tell("LockLost", subject_.noun + " was released or taken over by somebody else while the command ran");
}

void leave_lock_to_expire(int exit_code) noexcept {
  // Releasing, which the guard would do, would let the next holder in even sooner.
  _exit(exit_code);
}

int exit_code_of_status(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? exit_signal_base + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace holdfast::cli
