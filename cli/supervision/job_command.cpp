#include "supervision/job_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>

#include "process/stop_count.hpp"
#include "rpc/posix/descriptor.hpp"
#include "supervision/line_splitter.hpp"

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t read_at_once = std::size_t{64} * 1024;
/// How much is read of a pipe before anything else is looked at: a command may write as fast as it is read.
/// No less than a pipe holds, so that nothing is left of a command that has ended.
constexpr int reads_at_most = 32;
constexpr int lines_descriptor = 3;
/// How much of stderr is read ahead of its reader.
constexpr std::size_t max_errors = std::size_t{64} * 1024;
/// For a reader of stderr that does not read.
constexpr std::chrono::seconds longest_forward{5};

struct Pipe {
  Descriptor ours;
  Descriptor theirs;

  static Pipe make() {
    std::array<int, 2> ends{};
    checked(pipe2(ends.data(), O_CLOEXEC), "cannot create a pipe");
    Pipe made{Descriptor(ends[0]), Descriptor(ends[1])};
    checked(fcntl(made.ours.get(), F_SETFL, O_NONBLOCK), "cannot configure a pipe");
    return made;
  }
};

/// A file without a name that the command reads at its own pace: a pipe would need a thread that writes.
Descriptor readable(const std::string& text) {
  Descriptor file(checked(memfd_create("holdfast-task", MFD_CLOEXEC), "cannot create a file for the task"));
  for (std::size_t at = 0; at < text.size();) {
    const auto n = write(file.get(), text.data() + at, text.size() - at);
    if (n < 0) posix::throw_system_error("cannot write the task for the command");
    at += static_cast<std::size_t>(n);
  }
  checked(static_cast<int>(lseek(file.get(), 0, SEEK_SET)), "cannot rewind the task for the command");
  return file;
}

}  // namespace

/// Processes of a command whose keeper is silent, as in StopTimes.
constexpr unsigned if_unknown = 6;

struct JobCommand::Running {
  Keeper keeper;
  Descriptor output;
  Descriptor errors;
  Descriptor lines;
  LineSplitter splitter = {};
  BootTime announced{};         ///< the deadline that the keeper knows
  BootTime stopped_by = never;  ///< a working keeper has stopped the command by then
  StopTimes times = {};
  BootTime reported_late = {};  ///< the deadline that the keeper has reported to be near
  bool keeper_stops = false;
  StopCount stop_count = {};

  /// As Supervisor::keeper_is_overdue_at, but for KILL: what is left without a keeper gets no TERM.
  [[nodiscard]] BootTime overdue_at() noexcept {
    const bool keeper_runs = keeper_stops || reported_late == announced;
    // A silent keeper has counted nothing. Nor can this process: it is not the parent.
    const auto patience = (times.late - times.earliest_kill) / 2;
    const bool silent = !keeper_runs && BootClock::now() >= announced - times.late + patience;
    if (silent || !keeper_runs) stop_count.set(silent ? if_unknown : 0);
    const auto needed = times.kill(stop_count.total());
    const auto before = keeper_runs ? needed / 2 : needed;
    return std::min(announced - before, stopped_by);
  }
};

CommandEnd JobCommand::run(const Job& job, const Input& input) {
  auto output = Pipe::make();
  auto lines = Pipe::make();
  auto errors = input.on_output ? Pipe::make() : Pipe();
  auto task = readable(input.text);
  std::vector<Redirection> redirections{{.from = task.get(), .to = STDIN_FILENO},
                                        {.from = output.theirs.get(), .to = STDOUT_FILENO},
                                        {.from = lines.theirs.get(), .to = lines_descriptor}};
  if (errors.theirs) redirections.push_back({.from = errors.theirs.get(), .to = STDERR_FILENO});
  Running running{.keeper = source_.fork(redirections),
                  .output = std::move(output.ours),
                  .errors = std::move(errors.ours),
                  .lines = std::move(lines.ours),
                  .times = times_.stop};
  task.reset();
  output.theirs.reset();
  errors.theirs.reset();
  lines.theirs.reset();
  const auto wake = posix::make_eventfd();
  const auto wake_up = [fd = wake.get()] { eventfd_write(fd, 1); };
  const std::stop_callback on_loss(job.stopped(), wake_up);
  const std::stop_callback on_stop(input.stop, wake_up);
  const auto proven_until = [&job] {
    const auto now = BootClock::now();  // the clock first: a deadline too early is safe
    return now + job.remaining();
  };
  running.announced = proven_until();
  running.keeper.start(running.announced, input.environment, false);
  bool stopping = false;
  std::optional<CommandEnd> end;
  while (!end) {
    const auto usual = std::max<nanoseconds>(times_.ttl / 24, milliseconds(1));
    const auto interval =
        std::clamp<nanoseconds>(running.overdue_at() - BootClock::now(), milliseconds(1), usual);
    std::array<pollfd, 6> watched{{{running.keeper.descriptor(), POLLIN, 0},
                                   {running.output.get(), POLLIN, 0},
                                   {running.lines.get(), POLLIN, 0},
                                   {stopping ? -1 : wake.get(), POLLIN, 0},
                                   {errors_.size() < max_errors ? running.errors.get() : -1, POLLIN, 0},
                                   {errors_.empty() ? -1 : STDERR_FILENO, POLLOUT, 0}}};
    poll(watched.data(), watched.size(), static_cast<int>(std::chrono::ceil<milliseconds>(interval).count()));
    read_output(running, input);
    read_errors(running, input);
    // A pipe that is ready accepts PIPE_BUF bytes without blocking.
    if (watched.back().revents != 0) forward_some();
    read_lines(running, input);
    end = follow_keeper(running);
    if (end) break;
    if (!stopping && (job.stopped().stop_requested() || input.stop.stop_requested())) {
      stopping = true;
      running.keeper.send({.kind = KeeperOrder::Kind::stop});
      running.stopped_by = BootClock::now() + times_.stop.grace + times_.stop.margin;
    }
    const auto deadline = proven_until();
    if (!stopping && deadline > running.announced + milliseconds(1)) {
      running.keeper.send(
          {.kind = KeeperOrder::Kind::new_deadline, .deadline_ns = deadline.time_since_epoch().count()});
      running.announced = deadline;
    }
    // A keeper that is stopped or stuck shows only by this time having passed.
    if (BootClock::now() >= running.overdue_at()) end = stop_without_keeper(running, CommandEnd::Kind::lost);
  }
  if (end->kind == CommandEnd::Kind::keeper_died) *end = stop_without_keeper(running, end->kind);
  // What is left in the pipes, though not what descendants go on writing.
  read_output(running, input);
  read_errors(running, input);
  read_lines(running, input);
  running.splitter.finish(input.on_line);
  return *end;
}

std::optional<CommandEnd> JobCommand::follow_keeper(Running& running) {
  while (true) {
    const auto [report, dead] = running.keeper.next();
    if (dead) return CommandEnd{.kind = CommandEnd::Kind::keeper_died};
    if (!report) return std::nullopt;
    if (report->kind == KeeperReport::Kind::late) {
      running.reported_late = BootTime(nanoseconds(report->deadline_ns));
    }
    if (report->kind == KeeperReport::Kind::stopping) running.keeper_stops = true;
    if (report->kind == KeeperReport::Kind::exec_failed) {
      return CommandEnd{.kind = CommandEnd::Kind::exec_failed, .value = report->value};
    }
    if (report->kind == KeeperReport::Kind::exited) {
      const bool by_itself = report->cause == KeeperReport::Cause::none;
      return CommandEnd{.kind = by_itself ? CommandEnd::Kind::exited : CommandEnd::Kind::lost,
                        .value = report->value,
                        .survivors = report->survivors,
                        .proven_until = BootTime(nanoseconds(report->deadline_ns))};
    }
  }
}

/// The keeper is dead or does not react. Its parent kills it and what it leaves: here its pid may be another
/// process's by now.
CommandEnd JobCommand::stop_without_keeper(Running& running, CommandEnd::Kind kind) {
  return {.kind = kind, .survivors = source_.sweep(running.keeper)};
}

void JobCommand::read_output(Running& running, const Input& input) {
  std::array<char, read_at_once> buffer{};
  for (int reads = 0; running.output && reads < reads_at_most; ++reads) {
    const auto n = read(running.output.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return running.output.reset();
    if (input.on_output) input.on_output(0, {buffer.data(), static_cast<std::size_t>(n)});
    output_.append(buffer.data(), static_cast<std::size_t>(n));
    if (output_.size() <= max_output + read_at_once) continue;
    output_.erase(0, output_.size() - max_output);
    output_is_cut_ = true;
  }
}

/// No further than its reader reads: then the command waits, as if it wrote there directly.
void JobCommand::read_errors(Running& running, const Input& input) {
  std::array<char, read_at_once> buffer{};
  while (running.errors && errors_.size() < max_errors) {
    const auto n = read(running.errors.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return running.errors.reset();
    input.on_output(1, {buffer.data(), static_cast<std::size_t>(n)});
    errors_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// Whole lines, if they are not too long: other commands write there too.
void JobCommand::forward_some() {
  auto length = std::min<std::size_t>(errors_.size(), PIPE_BUF);
  if (const auto line = errors_.rfind('\n', length - 1); line != std::string::npos) length = line + 1;
  const auto n = write(STDERR_FILENO, errors_.data(), length);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  errors_.erase(0, n < 0 ? errors_.size() : static_cast<std::size_t>(n));
}

void JobCommand::forward_rest() {
  const auto give_up_at = BootClock::now() + longest_forward;
  while (!errors_.empty() && BootClock::now() < give_up_at) {
    pollfd watched{STDERR_FILENO, POLLOUT, 0};
    if (poll(&watched, 1, 100) > 0) forward_some();
  }
  errors_.clear();
}

void JobCommand::read_lines(Running& running, const Input& input) {
  std::array<char, read_at_once> buffer{};
  for (int reads = 0; running.lines && reads < reads_at_most; ++reads) {
    const auto n = read(running.lines.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return running.lines.reset();
    running.splitter.take({buffer.data(), static_cast<std::size_t>(n)}, input.on_line);
  }
}

}  // namespace holdfast::cli
