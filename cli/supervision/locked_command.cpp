#include "supervision/locked_command.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <holdfast/lock_types.hpp>

#include "arguments/values.hpp"
#include "process/job_control.hpp"
#include "rpc/posix/descriptor.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

using posix::checked;

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Returns the children that this process has already; all later ones are the command's.
std::vector<Process> prepare_to_supervise() {
  auto foreign_children = own_children();
  // An ignored SIGCHLD would discard exit codes, and SIGPIPE must not end this process over a closed stderr.
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  checked(prctl(PR_SET_CHILD_SUBREAPER, 1), "cannot become a subreaper");
  return foreign_children;
}

std::vector<std::string> environment_for(const Guard& guard, const std::string& url) {
  const std::string id(guard.id().str());
  const char* outer = std::getenv("HOLDFAST_CHAIN");
  const std::string chain = outer == nullptr || *outer == '\0' ? id : id + " " + outer;
  return {"HOLDFAST_KEY=" + guard.key(),
          "HOLDFAST_LOCK_ID=" + id,
          "HOLDFAST_FENCE=" + guard.fence().to_string(),
          "HOLDFAST_AUTHORITY=" + guard.authority(),
          "HOLDFAST_EXPIRES_AT_MS=" + std::to_string(guard.expires_at().time_since_epoch().count()),
          "HOLDFAST_URL=" + url,
          "HOLDFAST_CHAIN=" + chain};
}

}  // namespace

LockOptions LeaseTimes::lock_options() const noexcept {
  return {.ttl = ttl,
          .retries = no_retry_limit,
          .max_hold = max_hold,
          .notice = milliseconds::zero(),  // the keeper counts the grace back from the end of the proof
          .dispose_timeout = last_release_timeout};
}

LeaseTimes LeaseOptions::check() const {
  LeaseTimes times;
  times.ttl = Ttl::of(parse_positive_duration(ttl_name, ttl)).value_or_throw().length();
  if (max_hold) times.max_hold = parse_positive_duration("--max-hold", *max_hold);

  // The command must be gone before the lease expires or the longest hold ends, whichever is sooner.
  const bool capped = times.max_hold > milliseconds::zero() && times.max_hold < times.ttl;
  const nanoseconds shortest = capped ? times.max_hold : times.ttl;
  const std::string limit = capped ? "--max-hold" : ttl_name;
  times.stop = StopTimes::of(shortest);
  if (grace) {
    times.stop.grace = parse_duration("--grace", *grace);
    if (times.stop.grace > shortest / 3) {
      throw UsageError("--grace: " + quote(*grace) + " is more than a third of the " + limit + " of " +
                       describe(std::chrono::floor<milliseconds>(shortest)) +
                       ", so the lease could not be renewed in time. Use a longer " + limit +
                       " or a shorter --grace");
    }
  }
  return times;
}

// The signals are queued after the keeper is forked, which handles its own, and before the engine starts
// threads, which inherit the mask.
LockedCommand::LockedCommand(const std::vector<std::string>& command, const LeaseTimes& times,
                             std::vector<Redirection> redirections)
    : times_(times),
      foreign_children_(prepare_to_supervise()),
      keeper_(Keeper::fork({.command = command, .times = times.stop, .redirections = std::move(redirections)},
                           inherited_)),
      signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2}, inherited_) {
}

std::optional<int> LockedCommand::take_end_signal() noexcept {
  return signals_.take_one_of({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
}

CommandEnd LockedCommand::run(Guard& guard, const std::string& url, EndReport& report,
                              std::vector<std::string> environment, std::stop_token cancelled) {
  // Lease and longest hold count from when the lock was asked for, which is some time ago on a busy machine:
  // what is missing of them by now.
  const nanoseconds whole =
      times_.max_hold > milliseconds::zero() ? std::min(times_.max_hold, times_.ttl) : times_.ttl;
  held_since_ = BootClock::now() - std::max(whole - guard.remaining(), nanoseconds::zero());
  const auto terminal = ControllingTerminal::open();
  Supervisor supervisor(guard, keeper_, signals_, terminal ? &*terminal : nullptr,
                        {.ttl = times_.ttl,
                         .times = times_.stop,
                         .foreign_children = std::move(foreign_children_),
                         .cancelled = std::move(cancelled),
                         .on_survivors = [&report](const Survivors& left) { report.survivors(left); },
                         .on_refused_signal = [&report](int signal) { report.not_forwarded(signal); }});
  for (auto& one : environment_for(guard, url)) environment.push_back(std::move(one));
  auto end = supervisor.run(environment);
  end.renewal_error = guard.renewal_error();
  return end;
}

namespace {

LogField duration_field(nanoseconds length) {
  return {.name = "duration_ms", .value = std::int64_t{std::chrono::floor<milliseconds>(length).count()}};
}

}  // namespace

LogDetails EndReport::details(LogDetails of) const {
  if (!logs_json()) return of;
  of.fields.insert(of.fields.begin(), granted_.begin(), granted_.end());
  of.fields.insert(of.fields.begin(), wording_.log_fields.begin(), wording_.log_fields.end());
  return of;
}

void EndReport::report(std::string_view code, const std::string& message, LogDetails what) const {
  complain(json_, code, message, {}, details(std::move(what)));
}

void EndReport::refused(const AcquireRefusal& refusal, nanoseconds waited) const {
  complain(
      json_, to_string(ErrorCode::AcquisitionTimeout), refusal.message, refusal.holder,
      details({.event = "lock_refused", .level = LogSeverity::warning, .fields = {duration_field(waited)}}));
}

void EndReport::acquired(const Guard& guard, const Locks& locks, nanoseconds waited) {
  if (!logs_json()) return;
  acquired_at_ = BootClock::now();
  granted_.push_back({.name = "fence", .value = guard.fence().to_string()});
  if (const auto holder = locks.holder()) granted_.push_back({.name = "holder", .value = holder->str()});
  log_event(details({.event = "lock_acquired", .fields = {duration_field(waited)}}));
}

void EndReport::command_ended(const CommandEnd& end) const {
  if (!logs_json() || end.kind != CommandEnd::Kind::exited) return;
  LogFields fields{duration_field(BootClock::now() - acquired_at_)};
  if (WIFSIGNALED(end.value)) {
    fields.push_back({.name = "signal", .value = std::int64_t{WTERMSIG(end.value)}});
  } else {
    fields.push_back({.name = "exit_code", .value = std::int64_t{WEXITSTATUS(end.value)}});
  }
  log_event(details({.event = "command_exited", .fields = std::move(fields)}));
}

void EndReport::released() const {
  if (logs_json())
    log_event(
        details({.event = "lock_released", .fields = {duration_field(BootClock::now() - acquired_at_)}}));
}

int EndReport::exec_failed(const std::string& command, int error) const {
  report(
      "InvalidArgument",
      "cannot run " + quote(command) + " " + wording_.running + ": " +
          (error == ENOENT ? "command not found. Holdfast starts no shell; for shell syntax use sh -c '...'"
                           : std::strerror(error)));
  return error == ENOENT ? exit_not_found : exit_cannot_execute;
}

void EndReport::loss(const CommandEnd& end, std::optional<LossReason> reason, nanoseconds held) const {
  // Survivors that were reported earlier are gone now, for unknown reasons.
  const std::string and_the_command = end.survivors.any()   ? "; the command could not be stopped"
                                      : survivors_reported_ ? "; the command has exited since"
                                                            : "; the command was stopped";
  if (end.kind == CommandEnd::Kind::keeper_died) {
    report("Internal", "the process that supervises the command was killed" + and_the_command);
    return;
  }
  // Near the end of max_hold the keeper acts by the clock, before the guard reports the reason.
  const bool held_too_long =
      reason == LossReason::max_hold ||
      (!reason && times_.max_hold > milliseconds::zero() &&
       held + times_.stop.term(std::nullopt) + times_.stop.margin + milliseconds(100) >= times_.max_hold);
  std::string why = "its lease could not be renewed in time (";
  why += end.renewal_error ? without_key(printable(end.renewal_error->what()), wording_.key)
                           : "the store did not answer, or this process was suspended";
  why += ")";
  if (held_too_long) {
    why = "it was held for the --max-hold of " + describe(times_.max_hold);
  } else if (reason == LossReason::gone) {
    why = "it was released, broken or acquired by another holder, or its store lost its data";
  }
  LogFields fields{duration_field(BootClock::now() - acquired_at_)};
  if (reason) fields.push_back({.name = "reason", .value = std::string(to_string(*reason))});
  report("LockLost", "lost " + wording_.noun + ": " + why + and_the_command,
         {.event = "lock_lost", .level = LogSeverity::error, .fields = std::move(fields)});
}

void EndReport::survivors(const Survivors& survivors) {
  if (!survivors_reported_) report("Internal", describe(survivors));
  survivors_reported_ = true;
}

void EndReport::not_forwarded(int signal) const {
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGQUIT) return;
  report("Internal", "SIG" + std::string(sigabbrev_np(signal)) +
                         " was not forwarded: the command runs as another user. The command continues, and "
                         "the lock is kept");
}

void exit_without_release(int exit_code) noexcept {
  _exit(exit_code);
}

int exit_code_of_loss(const CommandEnd& end) noexcept {
  return end.kind == CommandEnd::Kind::keeper_died ? exit_internal : exit_lost;
}

int exit_code_of_status(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? exit_signal_base + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace holdfast::cli
