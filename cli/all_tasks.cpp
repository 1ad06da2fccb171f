#include "all_tasks.hpp"

#include <algorithm>
#include <limits>

#include "exit_codes.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "task_output.hpp"

namespace holdfast::cli {
namespace {

class AllTasks {
 public:
  AllTasks(const Context& context, std::optional<TaskStatus> status, std::size_t at_most)
      : context_(context), status_(status), left_(at_most), table_(columns()) {}

  int list() {
    auto opened = open_tasks(context_);
    // On Redis a page of owners costs a scan of all keys, so let it be a large one.
    std::string cursor;
    do {
      const auto page = opened.tasks.owners({.cursor = cursor, .limit = max_record_page});
      for (const auto& owner : page.owners) list_owner(opened.tasks, owner);
      cursor = page.cursor;
    } while (left_ > 0 && !cursor.empty());
    finish();
    return unreadable_ ? exit_internal : exit_ok;
  }

 private:
  static std::vector<std::string> columns() {
    auto all = task_columns();
    all.insert(all.begin(), "OWNER");
    return all;
  }

  void list_owner(Tasks& tasks, const std::string& owner) {
    constexpr std::size_t page_size = 200;
    std::string cursor;
    try {
      do {
        if (left_ == 0) return;
        const auto page =
            tasks.list(owner, {.cursor = cursor, .status = status_, .limit = std::min(left_, page_size)});
        for (const auto& task : page.tasks) show(task);
        for (const auto& error : page.unreadable) unreadable(owner, error);
        left_ -= std::min(left_, page.tasks.size());
        cursor = page.cursor;
      } while (!cursor.empty());
    } catch (const Error& error) {
      // A list that cannot be read at all, because another type's value is in its place, say: the other
      // owners' can be.
      if (error.code() != ErrorCode::Internal) throw;
      unreadable(owner, error);
    }
  }

  void show(const Task& task) {
    ++shown_;
    if (context_.json) {
      print_json_text(to_json(task));
      return;
    }
    auto row = task_row(task);
    row.insert(row.begin(), printable(task.owner));
    table_.add(std::move(row));
  }

  void unreadable(const std::string& owner, const Error& error) {
    unreadable_ = true;
    complain_unreadable(context_, owner, error);
  }

  void finish() {
    table_.finish();
    if (context_.json) return;
    if (shown_ == 0) {
      complain("nobody has tasks" + (status_ ? " that are " + std::string(to_string(*status_)) : ""));
    } else if (left_ == 0) {
      complain("there may be more: this was what --limit allows");
    }
  }

  const Context& context_;
  const std::optional<TaskStatus> status_;
  std::size_t left_;
  std::size_t shown_ = 0;
  bool unreadable_ = false;
  LongTable table_;
};

}  // namespace

int list_all_tasks(const Context& context, std::optional<TaskStatus> status,
                   std::optional<std::size_t> at_most) {
  return AllTasks(context, status, at_most.value_or(std::numeric_limits<std::size_t>::max())).list();
}

}  // namespace holdfast::cli
