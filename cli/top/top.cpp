#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "arguments/context.hpp"
#include "arguments/values.hpp"
#include "process/job_control.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"
#include "top/live.hpp"
#include "top/once.hpp"
#include "top/terminal.hpp"

namespace holdfast::cli {
namespace {

struct TopOptions {
  std::string interval = "0.5";
  bool once = false;
};

/// More often is of no use to a person, and costs the store.
constexpr std::chrono::milliseconds shortest_interval{100};

int show_top(const Context& context, const TopOptions& options) {
  const auto interval = parse_positive_duration("--interval", options.interval);
  if (interval < shortest_interval) throw UsageError("--interval: at least 0.1 seconds");
  if (options.once || context.json || !top::can_show_live()) {
    const auto store = open_store(context);
    const auto snapshot = top::read_once(store);
    if (context.json) {
      print_json(top::to_json(*snapshot));
    } else {
      top::print_plain(*snapshot);
    }
    return exit_ok;
  }
  const InheritedSignals inherited;
  // Before the store is opened: its threads must not take them.
  SignalQueue signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}, inherited);
  const auto store = open_store(context);
  const char* no_color = std::getenv("NO_COLOR");
  return top::show_live(store, signals,
                        {.interval = interval, .colours = no_color == nullptr || *no_color == '\0'});
}

}  // namespace

void fill_top(Command command, Context& context) {
  auto options = std::make_shared<TopOptions>();
  command.add_flag("--once", options->once, "Print locks, tasks and queues once, as plain text, and exit");
  command.add_option("--interval DURATION", options->interval,
                     "How often to read the store, at most (default 0.5s, at least 0.1s)");
  command.footer(
      "Shows held locks (key, holder, fence, what is left of the lease, waiters) and the tasks of all "
      "owners\n"
      "(method, status, progress, worker, age) as they change, and the queues (ready, delayed, working).\n"
      "Keys: 1 2 3 4 locks, tasks, events, queues; arrows select;\n"
      "Enter details; / filter; s sort; r reverse; Space pause; b break a lock; c cancel a task; ? help; q "
      "quit.\n"
      "Breaking and cancelling ask first.\n"
      "\n"
      "Reading uses at most 1 % of a Redis server's time (10 % until everything was read once), so a large "
      "store\n"
      "is read slowly: the first line shows how old the screen is. With $NO_COLOR nothing is coloured.\n"
      "Without a terminal, and with --json, the store is read and printed once.\n"
      "\n"
      "Exit: 0; 69 store unavailable; 128 + N ended by signal N.\n"
      "\n"
      "Examples:\n"
      "  holdfast top\n"
      "  holdfast --url redis://cache.internal top --interval 2\n"
      "  holdfast --json top | jq -r '.locks[] | select(.waiters > 0) | .key'");
  command.action([&context, options] { return show_top(context, *options); });
}

}  // namespace holdfast::cli
