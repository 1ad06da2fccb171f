#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>
#include <ranges>
#include <thread>

#include "arguments/values.hpp"
#include "task/access.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

/// Output is read this often while it is followed.
constexpr milliseconds read_again{300};
/// After the end of the task, for the end of an output that its worker has not sent yet.
constexpr std::chrono::seconds longest_rest{5};
/// A reader survives a store that is unreachable for up to this long.
constexpr std::chrono::seconds longest_absence{60};

struct LogsOptions {
  TaskArgument task;
  std::optional<std::string> queue;
  int attempt = 0;  ///< 0: the newest
  bool follow = false;
};

/// The task of an owner or of a queue.
struct LogSource {
  std::function<KeptOutput(const OutputPart&)> read;
  std::function<Task()> get;
};

/// Text for a terminal: control characters are escaped, but for line ends and tabs.
std::string for_terminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto end = text.find_first_of("\n\t");
    shown += printable(text.substr(0, end));
    if (end == std::string_view::npos) break;
    shown += text[end];
    text.remove_prefix(end + 1);
  }
  return shown;
}

/// How many bytes at the end are the beginning of a UTF-8 character.
std::size_t unfinished_character(std::string_view text) {
  constexpr std::size_t longest = 4;
  for (std::size_t back = 1; back < longest && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const auto n = write(to, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(ErrorCode::Internal, "the output cannot be written");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Shows the output of one task, run by run.
class LogReader {
 public:
  LogReader(const Context& context, const LogsOptions& options, LogSource source)
      : context_(context), options_(options), source_(std::move(source)) {}

  int operator()() {
    std::optional<BootTime> ended, away_since;
    for (;;) {
      try {
        // The state first: what is read after the end of the task is all there is, but for what comes late.
        const bool has_ended = options_.follow && is_final(source_.get().status);
        const bool is_all = read_all();
        away_since.reset();
        if (!options_.follow) break;
        if (has_ended && !ended) ended = BootClock::now();
        if (ended && (is_all || BootClock::now() - *ended >= longest_rest)) break;
      } catch (const Error& error) {
        away_since = away_since.value_or(BootClock::now());
        const bool is_away = error.transient() && BootClock::now() - *away_since < longest_absence;
        if (!options_.follow || !is_away) throw;
      }
      std::this_thread::sleep_for(read_again);
    }
    for (std::size_t stream = 0; stream < output_streams; ++stream) show_rest(stream);
    if (run_ != 0) return exit_ok;
    complain(context_.json, "NotFound",
             options_.attempt > 0
                 ? "no output of the attempt " + std::to_string(options_.attempt) + " is kept"
                 : "no output is kept of the task " + quote(options_.task.id) +
                       ": no `task run` or `task work` has written any");
    return options_.attempt > 0 ? exit_no_task : exit_ok;
  }

 private:
  /// Shows what is there now. Whether the run is complete, and no other has begun.
  bool read_all() {
    for (;;) {
      auto output = source_.read({.run = run_, .out_from = at_[0], .err_from = at_[1]});
      if (output.runs.empty()) return false;
      if (run_ == 0) {
        const auto run = first_run(output.runs);
        if (!run) return false;
        run_ = run->number;
        continue;
      }
      const auto current = std::ranges::find(output.runs, run_, &OutputRun::number);
      if (current == output.runs.end()) {
        complain("the rest of an earlier attempt's output was dropped");
        begin_run(output.runs.front());
        continue;
      }
      bool is_all = true;
      for (std::size_t stream = 0; stream < output_streams; ++stream) {
        show(*current, stream, output.pieces[stream]);
        is_all = is_all && at_[stream] >= current->streams[stream].end;
      }
      if (!is_all) continue;
      const auto next = std::next(current);
      if (next == output.runs.end() || options_.attempt > 0) return current->is_complete;
      begin_run(*next);
    }
  }

  /// The newest run of the attempt; the newest of all if none was asked for.
  [[nodiscard]] std::optional<OutputRun> first_run(const std::vector<OutputRun>& runs) const {
    if (options_.attempt == 0) return runs.back();
    const auto newest_first = std::views::reverse(runs);
    const auto found =
        std::ranges::find(newest_first, static_cast<std::uint32_t>(options_.attempt), &OutputRun::attempt);
    return found == newest_first.end() ? std::nullopt : std::optional(*found);
  }

  void begin_run(const OutputRun& run) {
    for (std::size_t stream = 0; stream < output_streams; ++stream) show_rest(stream);
    run_ = run.number;
    at_ = {};
    if (!context_.json) {
      complain(run.attempt > 0 ? "attempt " + std::to_string(run.attempt) : "the command was run again");
    }
  }

  void show(const OutputRun& run, std::size_t stream, const OutputPiece& piece) {
    if (piece.at > at_[stream] && !context_.json) {
      complain(std::to_string(piece.at - at_[stream]) + " bytes of " + names[stream] +
               " were dropped before this (--keep-output)");
    }
    at_[stream] = piece.at + piece.bytes.size();
    if (piece.bytes.empty()) return;
    auto text = std::exchange(rest_[stream], {}) + piece.bytes;
    if (context_.json || isatty(numbers[stream]) == 1) {
      const auto kept = unfinished_character(text);
      rest_[stream] = text.substr(text.size() - kept);
      text.resize(text.size() - kept);
    }
    write_out(run.attempt, stream, text);
    attempt_ = run.attempt;
  }
  void show_rest(std::size_t stream) { write_out(attempt_, stream, std::exchange(rest_[stream], {})); }

  void write_out(std::uint32_t attempt, std::size_t stream, const std::string& text) const {
    if (text.empty()) return;
    if (context_.json) {
      nlohmann::ordered_json line{{"stream", names[stream]}, {"text", text}};
      if (attempt > 0) line["attempt"] = attempt;
      print_json(line);
    } else {
      write_all(numbers[stream], isatty(numbers[stream]) == 1 ? for_terminal(text) : text);
    }
  }

  static constexpr std::array<const char*, output_streams> names{"stdout", "stderr"};
  static constexpr std::array<int, output_streams> numbers{STDOUT_FILENO, STDERR_FILENO};

  const Context& context_;
  const LogsOptions& options_;
  const LogSource source_;
  std::uint64_t run_ = 0;
  std::uint32_t attempt_ = 0;
  std::array<std::uint64_t, output_streams> at_{};
  std::array<std::string, output_streams> rest_;  ///< the beginning of a character
};

struct WatchOptions {
  TaskOwner owner;
  std::optional<std::string> id;
  std::optional<std::string> queue;
};

void print_change(const Context& context, const TaskChange& change) {
  if (context.json) {
    if (change.task) {
      print_task(context, *change.task);
    } else {
      print_json({{"taskId", change.id}, {"removed", true}});
    }
    return;
  }
  auto line = iso_time(wall_clock()) + "  " + printable(change.id) + "  ";
  if (!change.task) return print_text(line + "removed");
  const auto& task = *change.task;
  line += std::string(to_string(task.status));
  if (task.queue && !is_final(task.status)) {
    line += "  attempt " + std::to_string(task.queue->attempts);
    const bool works = task.queue->place == QueuePlace::leased;
    line += works ? " by " + printable(task.queue->worker) : ", not worked on";
  }
  if (const auto progress = progress_of(task); !progress.empty()) line += "  " + progress;
  if (task.status_message) line += "  " + printable(*task.status_message);
  print_text(line);
}

/// Until the task has ended; the tasks of an owner or a queue until a signal.
int print_changes(const Context& context, TaskWatch watch, bool is_one) {
  for (;;) {
    for (const auto& change : watch.next()) {
      print_change(context, change);
      if (!is_one) continue;
      if (!change.task) return exit_no_task;
      if (is_final(change.task->status)) return exit_ok;
    }
  }
}

}  // namespace

void add_task_logs(Command task, Context& context) {
  auto command = task.add_command("logs", "Show the output of a task's command");
  auto options = std::make_shared<LogsOptions>();
  options->task.add_to(command);
  command.add_option("--queue QUEUE", options->queue, "The task is one of this queue").not_empty();
  command.add_flag("-f,--follow", options->follow, "Go on until the task has ended");
  command.add_option("--attempt N", options->attempt, "Of this attempt (default: the newest)")
      .between(1, 1'000'000);
  command.footer(
      "Shows what `task run` and `task work` keep of the command's output, from any machine: its stdout on\n"
      "stdout, its stderr on stderr. Of a long output the end is kept (--keep-output there, 64 KiB of each\n"
      "stream), of the newest five attempts; it expires with the task. With -f, the attempts that follow "
      "are\n"
      "shown too, each after a line on stderr.\n"
      "\n"
      "On a terminal, control characters are escaped. With --json: lines {\"stream\":NAME,\"text\":TEXT}, "
      "and\n"
      "`attempt` for a task of a queue.\n"
      "\n"
      "Exit: 0, also if no output is kept; 1 no such task, or none of the attempt of --attempt.\n"
      "\n"
      "Examples:\n"
      "  holdfast task logs \"$id\"\n"
      "  holdfast task logs -f --queue render \"$id\"");
  command.action([&context, options] {
    const auto& id = options->task.id;
    if (options->queue) {
      const auto queue = open_store(context).queue(*options->queue);
      return with_queue_task(*options->queue, id, [&] {
        return LogReader(context, *options,
                         {.read = [&](const OutputPart& part) { return queue.read_output(id, part); },
                          .get = [&] { return queue.get(id); }})();
      });
    }
    return with_task(options->task, [&] {
      const auto tasks = open_tasks(context).tasks;
      const auto& owner = options->task.owner.name;
      return LogReader(context, *options,
                       {.read = [&](const OutputPart& part) { return tasks.read_output(owner, id, part); },
                        .get = [&] { return tasks.get(owner, id); }})();
    });
  });
}

void add_task_watch(Command task, Context& context) {
  auto command = task.add_command("watch", "Show each change of a task, or of all tasks");
  auto options = std::make_shared<WatchOptions>();
  options->owner.add_to(command);
  command.add_option("--queue QUEUE", options->queue, "Tasks of this queue instead of an owner's")
      .not_empty();
  command.add_option("ID", options->id, "The task (default: all of the owner or the queue)").not_empty();
  command.footer(
      "Prints a line for each task there is, then one for each change (with --json: the task, as `task "
      "get`;\n"
      "{\"taskId\":ID,\"removed\":true} if it is gone). Changes in quick succession may be one line; the "
      "last "
      "state\n"
      "of a task is always shown.\n"
      "\n"
      "Exit: 0 the task has ended; 1 no such task, or it was removed. Without ID it runs until a signal.\n"
      "\n"
      "Examples:\n"
      "  holdfast task watch \"$id\"\n"
      "  holdfast --json task watch --queue render | jq -c '[.task.taskId, .task.status]'");
  command.action([&context, options] {
    const auto& id = options->id;
    if (options->queue) {
      const auto queue = open_store(context).queue(*options->queue);
      if (!id) return print_changes(context, queue.watch(), false);
      return with_queue_task(*options->queue, *id,
                             [&] { return print_changes(context, queue.watch(*id), true); });
    }
    const auto tasks = open_tasks(context).tasks;
    const auto& owner = options->owner.name;
    if (!id) return print_changes(context, tasks.watch(owner), false);
    return with_task({.owner = options->owner, .id = *id},
                     [&] { return print_changes(context, tasks.watch(owner, *id), true); });
  });
}

}  // namespace holdfast::cli
