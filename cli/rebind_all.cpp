#include "rebind_all.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include "confirmation.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "task_output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

/// A task or register that a lock of the lost authority guards.
struct Bound {
  std::string owner;  ///< empty for a register
  std::string name;
  FencingToken guard;
};

/// Once over all records: page by page, so that it costs the memory of one page.
class RebindPass {
 public:
  enum class Mode { count, show, rebind };

  RebindPass(const Context& context, OpenedTasks& opened, const RebindAll& what, std::string to, Mode mode)
      : context_(context), opened_(opened), what_(what), to_(std::move(to)), mode_(mode) {}

  void run() {
    if (what_.owner) {
      look_at_owner(*what_.owner);
    } else {
      std::string cursor;
      do {
        const auto page = opened_.tasks.owners({.cursor = cursor, .limit = max_record_page});
        for (const auto& owner : page.owners) look_at_owner(owner);
        cursor = page.cursor;
      } while (!cursor.empty());
      look_at_registers();
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
    return counted(tasks_, "task") + (what_.owner ? "" : " and " + counted(registers_, "register"));
  }

 private:
  static constexpr std::size_t page_size = 200;

  void look_at_owner(const std::string& owner) {
    std::string cursor;
    try {
      do {
        const auto page = opened_.tasks.list(owner, {.cursor = cursor, .limit = page_size});
        for (const auto& task : page.tasks) {
          if (is_meant_by(task.guarded_by))
            handle({.owner = owner, .name = task.id, .guard = *task.guarded_by});
        }
        for (const auto& error : page.unreadable) unreadable(owner, error);
        looked_at_ += page.tasks.size() + page.unreadable.size();
        show_progress();
        cursor = page.cursor;
      } while (!cursor.empty());
    } catch (const Error& error) {
      // Another type's value in place of the owner's list, say: the other owners' can be read.
      if (error.code() != ErrorCode::Internal) throw;
      unreadable(owner, error);
    }
  }

  void look_at_registers() {
    std::string cursor;
    do {
      const auto page = opened_.holdfast.fenced_registers(cursor, page_size);
      for (const auto& [name, value] : page.registers) {
        if (is_meant_by(value.written_by)) handle({.owner = {}, .name = name, .guard = value.written_by});
      }
      for (const auto& error : page.unreadable) unreadable("", error);
      looked_at_ += page.registers.size() + page.unreadable.size();
      show_progress();
      cursor = page.cursor;
    } while (!cursor.empty());
  }

  [[nodiscard]] bool is_meant_by(const std::optional<FencingToken>& guard) const {
    return guard && guard->authority == what_.from;
  }

  void handle(const Bound& bound) {
    if (mode_ == Mode::rebind && !rebind(bound)) return;
    ++(bound.owner.empty() ? registers_ : tasks_);
    if (mode_ != Mode::count) show(bound);
  }

  /// False if it is gone, or guarded by another authority's lock by now.
  [[nodiscard]] bool rebind(const Bound& bound) {
    // The lowest fence there is: every holder of that lock at its new authority comes after it.
    const FencingToken token{
        .authority = to_, .lock_key = bound.guard.lock_key, .fence = Fence::of(1).value_or_throw()};
    try {
      if (bound.owner.empty()) {
        const auto value = opened_.holdfast.fenced_register(bound.name).rebind_from(what_.from, token);
        return value && value->written_by == token;
      }
      return opened_.tasks.rebind_from(what_.from, bound.owner, bound.name, token).guarded_by == token;
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

  /// Now and then: a store may have millions.
  void show_progress() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_progress_) return;
    next_progress_ = now + std::chrono::seconds(1);
    if (context_.json) {
      tell_json({{"lookedAt", looked_at_}, {"tasks", tasks_}, {"registers", registers_}});
    } else {
      complain("looked at " + std::to_string(looked_at_) + " records; " + found() + " so far");
    }
  }

  const Context& context_;
  OpenedTasks& opened_;
  const RebindAll& what_;
  const std::string to_;
  const Mode mode_;
  std::size_t looked_at_ = 0, tasks_ = 0, registers_ = 0;
  bool all_read_ = true;
  std::chrono::steady_clock::time_point next_progress_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
  LongTable table_{{"KIND", "OWNER", "NAME", "LOCK", "FENCE"}};
};

/// Shows how many there are, and asks.
bool is_wanted(const Context& context, OpenedTasks& opened, const RebindAll& what, const std::string& to) {
  RebindPass count(context, opened, what, to, RebindPass::Mode::count);
  count.run();
  complain(count.found() + " guarded by locks of the authority " + quote(what.from) +
           ". Rebound, only holders of the "
           "same locks at the authority " +
           quote(to) + " can write to them");
  return confirm("Rebind them?");
}

}  // namespace

std::string new_authority(const std::string& from, const std::optional<std::string>& to,
                          const std::string& current) {
  if (from == current) {
    throw UsageError(
        "--from-authority: " + quote(from) +
        " is not gone: it counts the fences of this store's locks; see `holdfast --json task get ID` "
        "for the authority that guards a task");
  }
  if (to == from)
    throw UsageError("--to-authority: is the one that is gone; leave it out for that of this store");
  return to.value_or(current);
}

int rebind_all(const Context& context, const RebindAll& what) {
  const bool ask = !what.dry_run && !what.yes;
  if (ask && !can_ask()) {
    throw UsageError(
        "task rebind: without an ID it changes many tasks, and there is no terminal to ask; add --dry-run to "
        "list them, --yes to do it");
  }
  auto opened = open_tasks(context);
  const auto to = new_authority(what.from, what.to, opened.holdfast.locks().authority());
  if (ask && !is_wanted(context, opened, what, to)) {
    if (context.json) {
      print_json({{"ok", false}, {"reason", "declined"}});
    } else {
      complain("nothing was done");
    }
    return exit_no_task;
  }
  RebindPass pass(context, opened, what, to,
                  what.dry_run ? RebindPass::Mode::show : RebindPass::Mode::rebind);
  pass.run();
  if (context.json) {
    print_json({{"tasks", pass.tasks()},
                {"registers", pass.registers()},
                {"lookedAt", pass.looked_at()},
                {"toAuthority", to},
                {"dryRun", what.dry_run}});
  } else {
    complain(pass.found() + (what.dry_run ? " to be rebound to " : " rebound to ") + quote(to) + ", of " +
             std::to_string(pass.looked_at()) + " records");
  }
  return pass.all_read() ? exit_ok : exit_internal;
}

}  // namespace holdfast::cli
