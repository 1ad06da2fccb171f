#include <chrono>
#include <nlohmann/json.hpp>

#include "arguments/values.hpp"
#include "task/access.hpp"
#include "task/task.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

struct RebindOptions {
  TaskOwner owner;
  std::optional<std::string> id;
  FenceOptions fence;
  bool none = false;
  /// The authority that is gone.
  std::optional<std::string> from;
  /// The one that counts the fences of the same locks now; by default that of this store, if it counts them.
  std::optional<std::string> to;
  bool all_owners = false;  ///< and the fenced registers
  bool dry_run = false;
  bool yes = false;
};

/// A task or register that a lock of the lost authority guards.
struct Bound {
  std::string owner;  ///< empty for a register
  std::string name;
  FencingToken guard;
};

/// One pass over all records, in the memory of one page.
class RebindPass {
 public:
  enum class Mode { count, show, rebind };

  RebindPass(const Context& context, OpenedTasks& opened, const RebindOptions& options, std::string to,
             Mode mode)
      : context_(context), opened_(opened), options_(options), to_(std::move(to)), mode_(mode) {}

  void run() {
    if (!options_.all_owners) {
      visit_owner(options_.owner.name);
    } else {
      for_each_owner(
          opened_.tasks,
          [&](const std::string& owner) {
            visit_owner(owner);
            return true;
          },
          [&](const std::string& name) { left_out("an owner", no_owner(name)); });
      visit_registers();
    }
    if (mode_ != Mode::count) table_.finish();
  }

  [[nodiscard]] std::size_t tasks() const noexcept { return tasks_; }
  [[nodiscard]] std::size_t registers() const noexcept { return registers_; }
  [[nodiscard]] std::size_t looked_at() const noexcept { return looked_at_; }
  [[nodiscard]] bool all_read() const noexcept { return all_read_; }

  /// "2 tasks and 1 register"
  [[nodiscard]] std::string found() const {
    const auto counted = [](std::size_t n, const std::string& what) {
      return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
    };
    return counted(tasks_, "task") + (options_.all_owners ? " and " + counted(registers_, "register") : "");
  }

 private:
  static constexpr std::size_t page_size = 200;

  void visit_owner(const std::string& owner) {
    const auto error = for_each_page(opened_.tasks, owner, ListTasks{}, page_size, [&](const TaskPage& page) {
      for (const auto& task : page.tasks) {
        if (is_guarded_from(task.bound_to))
          handle({.owner = owner, .name = task.id, .guard = *task.bound_to});
      }
      for (const auto& one : page.unreadable) unreadable(owner, one);
      looked_at_ += page.tasks.size() + page.unreadable.size();
      show_progress();
      return page_size;
    });
    if (error) unreadable(owner, *error);
  }

  void visit_registers() {
    std::string cursor;
    do {
      const auto page = opened_.holdfast.fenced_registers(cursor, page_size);
      for (const auto& [name, value] : page.registers) {
        if (is_guarded_from(value.written_by)) handle({.owner = {}, .name = name, .guard = value.written_by});
      }
      for (const auto& error : page.unreadable) left_out("a register", error);
      looked_at_ += page.registers.size() + page.unreadable.size();
      show_progress();
      cursor = page.cursor;
    } while (!cursor.empty());
  }

  [[nodiscard]] bool is_guarded_from(const std::optional<FencingToken>& guard) const {
    return guard && guard->authority == *options_.from;
  }

  void handle(const Bound& bound) {
    if (mode_ == Mode::rebind && !rebind(bound)) return;
    ++(bound.owner.empty() ? registers_ : tasks_);
    if (mode_ != Mode::count) show(bound);
  }

  /// False if it is gone, or guarded by another authority's lock by now.
  [[nodiscard]] bool rebind(const Bound& bound) {
    // The lowest fence: every holder of that lock at its new authority has a higher one.
    const FencingToken token{
        .authority = to_, .lock_key = bound.guard.lock_key, .fence = Fence::of(1).value_or_throw()};
    try {
      if (bound.owner.empty()) {
        const auto value = opened_.holdfast.fenced_register(bound.name).rebind_from(*options_.from, token);
        return value && value->written_by == token;
      }
      return opened_.tasks.rebind_from(*options_.from, bound.owner, bound.name, token).bound_to == token;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::NotFound) throw;
      return false;
    }
  }

  void show(const Bound& bound) {
    const auto fence = bound.guard.fence.to_string();
    if (!context_.json) {
      table_.add({bound.owner.empty() ? "register" : "task", printable(bound.owner), printable(bound.name),
                  printable(bound.guard.lock_key), fence});
      return;
    }
    ordered_json object;
    if (bound.owner.empty()) {
      object["register"] = bound.name;
    } else {
      object["ownerId"] = bound.owner;
      object["taskId"] = bound.name;
    }
    object["key"] = bound.guard.lock_key;
    object["fence"] = fence;
    print_json(object);
  }

  void unreadable(const std::string& owner, const Error& error) {
    all_read_ = false;
    if (mode_ != Mode::count) complain_unreadable(context_, owner, error);
  }

  void left_out(std::string_view what, const Error& error) {
    all_read_ = false;
    if (mode_ != Mode::count) complain_left_out(context_, what, error);
  }

  /// Once a second: a store may have millions of records.
  void show_progress() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_progress_) return;
    next_progress_ = now + std::chrono::seconds(1);
    if (context_.json && !logs_json()) {
      write_json_line({{"lookedAt", looked_at_}, {"tasks", tasks_}, {"registers", registers_}});
    } else {
      complain("checked " + std::to_string(looked_at_) + " records; " + found() + " so far",
               {.event = "progress"});
    }
  }

  const Context& context_;
  OpenedTasks& opened_;
  const RebindOptions& options_;
  const std::string to_;
  const Mode mode_;
  std::size_t looked_at_ = 0, tasks_ = 0, registers_ = 0;
  bool all_read_ = true;
  std::chrono::steady_clock::time_point next_progress_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
  LongTable table_{{"KIND", "OWNER", "NAME", "LOCK", "FENCE"}};
};

/// Counts the records and asks.
bool confirm_rebind(const Context& context, OpenedTasks& opened, const RebindOptions& options,
                    const std::string& to) {
  RebindPass count(context, opened, options, to, RebindPass::Mode::count);
  count.run();
  complain(count.found() + " bound to locks of the authority " + quote(*options.from) +
           ". After the rebind, only holders of the same locks at the authority " + quote(to) +
           " can write to them");
  return confirm("Rebind them?");
}

/// The authority to bind to. Throws UsageError if `from` is not gone: it is this store's own, or `to`; and if
/// `to` is missing where the store's authority labels no fence.
std::string new_authority(const std::string& from, const std::optional<std::string>& to, const Locks& locks) {
  const auto current = locks.authority();
  if (from == current) {
    throw UsageError("--from-authority: " + quote(from) +
                     " is the authority of this store and is not lost; `holdfast --json task get ID` shows "
                     "the authority of a task's lock");
  }
  if (to == from)
    throw UsageError(
        "--to-authority: is the same as --from-authority; pass the authority that counts the fences now");
  if (!to && locks.capabilities().authority_per_key) {
    throw UsageError(
        "task rebind: --to-authority is missing. In this store (layout=native) each lock key has its own "
        "authority; `holdfast run KEY -- printenv HOLDFAST_AUTHORITY` prints it");
  }
  return to.value_or(current);
}

int rebind_all(const Context& context, const RebindOptions& options) {
  const bool ask = !options.dry_run && !options.yes;
  if (ask && !can_ask()) {
    throw UsageError(
        "task rebind: without ID it changes many tasks, and there is no terminal to confirm. Add --dry-run "
        "to list them, or --yes to rebind them");
  }
  auto opened = open_tasks(context);
  const auto to = new_authority(*options.from, options.to, opened.holdfast.locks());
  if (ask && !confirm_rebind(context, opened, options, to)) {
    print_json_or_complain(context.json, {{"ok", false}, {"reason", "declined"}}, "nothing was changed");
    return exit_no_task;
  }
  RebindPass pass(context, opened, options, to,
                  options.dry_run ? RebindPass::Mode::show : RebindPass::Mode::rebind);
  pass.run();
  if (context.json) {
    print_json({{"tasks", pass.tasks()},
                {"registers", pass.registers()},
                {"lookedAt", pass.looked_at()},
                {"toAuthority", to},
                {"dryRun", options.dry_run}});
  } else {
    complain(pass.found() + (options.dry_run ? " to be rebound to " : " rebound to ") + quote(to) + ", of " +
             std::to_string(pass.looked_at()) + " records");
  }
  return pass.all_read() ? exit_ok : exit_internal;
}

struct BindOptions {
  TaskArgument task;
  FenceOptions fence;
};

int bind(const Context& context, const BindOptions& options) {
  auto opened = open_tasks(context);
  const auto token = options.fence.any_token(opened.holdfast.locks());
  if (!token) {
    throw UsageError(
        "task bind: the lock is missing; add --fence and --fence-key, or run it under `holdfast run`");
  }
  auto tasks = options.fence.with_incarnation(opened, options.task);
  print_changed(context, tasks.bind(options.task.owner.name, options.task.id, *token));
  return exit_ok;
}

/// Of a task that a lock of the lost authority guards: the same lock of the other one.
Task rebind_to_new_authority(OpenedTasks& opened, const RebindOptions& options) {
  auto task = opened.tasks.get(options.owner.name, *options.id);
  const auto to = new_authority(*options.from, options.to, opened.holdfast.locks());
  if (!task.bound_to || task.bound_to->authority != *options.from) return task;
  const FencingToken token{
      .authority = to, .lock_key = task.bound_to->lock_key, .fence = Fence::of(1).value_or_throw()};
  return opened.tasks.rebind_from(*options.from, options.owner.name, *options.id, token);
}

int rebind_one(const Context& context, const RebindOptions& options) {
  const bool says_what = options.none || options.fence.fence.has_value();
  if ((!says_what && !options.from) || (options.none && options.fence.fence)) {
    throw UsageError("task rebind: pass --fence F with --fence-key K, or --none, or --from-authority A");
  }
  if (options.all_owners || options.dry_run || options.yes) {
    throw UsageError("task rebind: --all-owners, --dry-run and --yes are for many tasks; omit the ID");
  }
  if (options.to && (says_what || !options.from)) {
    throw UsageError("--to-authority: requires --from-authority, and excludes --fence and --none");
  }
  auto opened = open_tasks(context);
  const auto& owner = options.owner.name;
  if (!says_what) {
    print_changed(context, rebind_to_new_authority(opened, options));
    return exit_ok;
  }
  const auto token = options.fence.explicit_token(opened.holdfast.locks());
  print_changed(context, options.from ? opened.tasks.rebind_from(*options.from, owner, *options.id, token)
                                      : opened.tasks.rebind(owner, *options.id, token));
  return exit_ok;
}

int rebind(const Context& context, const RebindOptions& options) {
  if (options.id) {
    return with_task({.owner = options.owner, .id = *options.id},
                     [&] { return rebind_one(context, options); });
  }
  if (!options.from)
    throw UsageError("task rebind: pass the ID of a task, or --from-authority A for many tasks");
  if (options.none || options.fence.fence || options.fence.key) {
    throw UsageError("task rebind: --none and --fence are for one task; pass its ID");
  }
  return rebind_all(context, options);
}

}  // namespace

void add_task_bind(Command task, Context& context) {
  auto command = task.add_command("bind", "Bind a task to a lock");
  auto options = std::make_shared<BindOptions>();
  options->task.add_to(command);
  options->fence.add_to(command, "Fence to bind with (default $HOLDFAST_FENCE)");
  options->fence.add_incarnation_to(command);
  command.footer(
      "The task then rejects writes with a lower fence of that lock, and writes with a fence of another "
      "lock.\n"
      "Under `holdfast run` the task is bound to the lock of that run, and writes from its command carry "
      "the\n"
      "fence automatically.\n"
      "\n"
      "Exit: 0 bound, or already bound to that lock; 1 no such task; 79 bound to another lock, or the fence "
      "is\n"
      "stale.\n"
      "\n"
      "Examples:\n"
      "  holdfast run nightly -- holdfast task bind \"$id\"\n"
      "  holdfast task bind \"$id\" --fence 42 --fence-key nightly");
  command.action(
      [&context, options] { return with_task(options->task, [&] { return bind(context, *options); }); });
}

void add_task_rebind(Command task, Context& context) {
  auto command = task.add_command("rebind", "Bind one or many tasks to another lock (for operators)");
  auto options = std::make_shared<RebindOptions>();
  const auto owner = options->owner.add_to(command);
  command.add_option("ID", options->id, "Task id; without it: all tasks of --from-authority").not_empty();
  command.add_flag("--none", options->none, "Unbind the task from its lock");
  options->fence.add_to(command, "New highest fence, even if it is lower");
  command
      .add_option("--from-authority AUTHORITY", options->from,
                  "Only tasks bound to locks of this authority: for a store that lost its data")
      .not_empty();
  command
      .add_option("--to-authority AUTHORITY", options->to,
                  "New authority of the same locks (default: the authority of this store; required with\n"
                  "layout=native)")
      .not_empty();
  command.add_flag("--all-owners", options->all_owners, "Tasks of all owners, and fenced registers")
      .excludes(owner);
  auto dry_run = command.add_flag("--dry-run", options->dry_run, "Only list the tasks, change nothing");
  command.add_flag("-y,--yes", options->yes, "Do not ask, even on a terminal").excludes(dry_run);
  command.footer(
      "With --fence or --none: replaces any earlier binding, however high its fence, for a lock that moved "
      "to\n"
      "another store or lost its fence counter. After --fence, writes under the old lock are rejected.\n"
      "After --none they are not: the next write with a fence succeeds, even one of the old holder, and "
      "binds\n"
      "the task to its lock again. So stop the old holder first.\n"
      "\n"
      "With only --from-authority: the task stays bound to the same lock key, at the new authority, with "
      "the\n"
      "lowest fence. The next holder of that lock can write to it; holders at the lost authority cannot.\n"
      "Without ID this applies to all tasks of the owner (or of --all-owners) that are bound to a lock of "
      "that\n"
      "authority. A record that was bound to another lock meanwhile is never changed. On a terminal the "
      "command\n"
      "counts the records and asks; without a terminal pass --dry-run or --yes. With --json: one object per\n"
      "line, the last one with the totals. Progress is reported on stderr every second.\n"
      "\n"
      "Exit: 0 done; 1 no such task, or the answer was no; 70 a record is unreadable (it is named, and the\n"
      "others are rebound).\n"
      "\n"
      "Examples:\n"
      "  holdfast task rebind \"$id\" --none\n"
      "  holdfast task rebind \"$id\" --fence 42 --fence-key nightly\n"
      "  holdfast task rebind --from-authority \"$lost\" --all-owners --dry-run\n"
      "  holdfast task rebind --from-authority \"$lost\" --all-owners --yes");
  command.action([&context, options] { return rebind(context, *options); });
}

}  // namespace holdfast::cli
