#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "arguments/values.hpp"
#include "task/access.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {

namespace {

using std::chrono::milliseconds;

constexpr std::string_view clear_line = "\r\x1b[K";

void write_out(std::string_view text) noexcept {
  [[maybe_unused]] const auto n = write(STDERR_FILENO, text.data(), text.size());
}

/// A line that wraps could not be drawn over.
std::string cut_to_terminal(std::string text) {
  winsize size{};
  const std::size_t columns =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;  // within a character
    if (++column >= columns) {
      text.resize(i);
      break;
    }
  }
  return text;
}

/// A line on stderr that is drawn over and over: a text and the time since construction. Only on a terminal;
/// elsewhere it does nothing. The destructor clears the line.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// From any thread. `text` must be printable.
  void show(std::string text);

 private:
  void keep_drawing();
  void draw() const;

  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool new_text_ = false;
  bool end_ = false;
  std::thread thread_;
};

ProgressLine::ProgressLine() {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { keep_drawing(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  thread_.join();
  write_out(clear_line);
}

void ProgressLine::show(std::string text) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    new_text_ = true;
  }
  changed_.notify_one();
}

void ProgressLine::keep_drawing() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    if (!text_.empty()) draw();
    new_text_ = false;
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return end_ || new_text_; });
  }
}

void ProgressLine::draw() const {
  const auto elapsed = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - since_);
  write_out(std::string(clear_line) + cut_to_terminal(text_ + "  (" + describe(milliseconds(elapsed)) + ")"));
}

int get(const Context& context, const TaskArgument& task) {
  const auto opened = open_tasks(context);
  const auto found = opened.tasks.get(task.owner.name, task.id);
  print_task(context, found, opened.tasks.worker(found));
  return exit_ok;
}

int result(const Context& context, const TaskArgument& task) {
  const auto found = open_tasks(context).tasks.get_result(task.owner.name, task.id);
  const auto value = found.value_or(Json());
  if (context.json) {
    print_json_text(value);
  } else {
    print_indented(value);
  }
  return exit_ok;
}

struct TaskWaitOptions {
  TaskArgument task;
  std::optional<std::string> timeout;
  std::optional<std::string> status;
};

std::string progress_text(const Task& task) {
  std::string line(to_string(task.status));
  if (const auto progress = progress_of(task); !progress.empty()) line += "  " + progress;
  if (task.status_message) line += "  " + printable(*task.status_message);
  return line;
}

int not_reached(const Context& context, const Task& task, const std::string& wanted) {
  const auto message = "the task " + quote(task.id) + " has ended as " + std::string(to_string(task.status)) +
                       " and cannot become " + wanted;
  if (context.json) print_task(context, task);
  complain(context.json, "NotReached", message);
  return exit_no_task;
}

int wait(const Context& context, const TaskWaitOptions& options) {
  const auto timeout = options.timeout ? parse_duration("--timeout", *options.timeout) : no_time_limit;
  const auto wanted =
      options.status ? std::optional(parse_status_argument(*options.status)) : std::optional<TaskStatus>();
  auto opened = open_tasks(context);
  std::optional<Task> task;
  {
    ProgressLine progress;
    task = opened.tasks.wait(options.task.owner.name, options.task.id, timeout, [&](const Task& seen) {
      progress.show(progress_text(seen));
      return is_final(seen.status) || seen.status == wanted;
    });
  }
  if (!task) {
    const auto message = "the task " + quote(options.task.id) + " has not " +
                         (wanted ? "become " + std::string(to_string(*wanted)) : std::string("ended")) +
                         " within " + describe(timeout);
    complain(context.json, "NotReached", message);
    return exit_no_task;
  }
  if (wanted && task->status != *wanted) return not_reached(context, *task, *options.status);
  if (context.json) {
    print_task(context, *task);
  } else {
    print_text(to_string(task->status));
  }
  return exit_ok;
}

}  // namespace

void add_task_get(Command task, Context& context) {
  auto command = task.add_command("get", "Show a task");
  auto options = std::make_shared<TaskArgument>();
  options->add_to(command);
  command.footer(
      "With --json: the record as stored, followed by `version`, `incarnation` and `fence`; and, while a\n"
      "worker holds the task, `claim`: its worker, and when it was claimed.\n"
      "\n"
      "Exit: 0 found; 1 no such task, or owned by another owner.\n"
      "\n"
      "Examples:\n"
      "  holdfast task get \"$id\"\n"
      "  holdfast --json task get \"$id\" | jq -r .task.status");
  command.action([&context, options] { return with_task(*options, [&] { return get(context, *options); }); });
}

void add_task_result(Command task, Context& context) {
  auto command = task.add_command("result", "Print the result of a task that has ended");
  auto options = std::make_shared<TaskArgument>();
  options->add_to(command);
  command.footer(
      "The result is JSON, with --json on one line; null if the task ended without a result.\n"
      "\n"
      "Exit: 0 the task has ended, with any status; 1 it has not (see `task wait`), or there is no such "
      "task.\n"
      "\n"
      "Examples:\n"
      "  holdfast task result \"$id\"\n"
      "  holdfast --json task result \"$id\" | jq -r .stdout");
  command.action(
      [&context, options] { return with_task(*options, [&] { return result(context, *options); }); });
}

void add_task_wait(Command task, Context& context) {
  auto command = task.add_command("wait", "Wait until a task has ended");
  auto options = std::make_shared<TaskWaitOptions>();
  options->task.add_to(command);
  command.add_option("--timeout DURATION", options->timeout, "Wait at most this long");
  command.add_option("--status STATUS", options->status, "Wait for this status instead");
  command.footer(
      "Prints the final status (with --json: the task). On a terminal a line shows the progress.\n"
      "\n"
      "Exit: 0 the task has ended, with any status, or reached --status; 1 --timeout passed, the task ended\n"
      "with another status, or there is no such task.\n"
      "\n"
      "Examples:\n"
      "  holdfast task wait \"$id\" && holdfast task result \"$id\"\n"
      "  holdfast task wait \"$id\" --status completed --timeout 5m || echo 'failed, or not yet'");
  command.action(
      [&context, options] { return with_task(options->task, [&] { return wait(context, *options); }); });
}

}  // namespace holdfast::cli
