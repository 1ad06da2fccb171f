#pragma once

#include <holdfast/task_types.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"

namespace holdfast::cli {

/// The record as it is stored, then `version` and `fence` (null, or an object of `fence`, `key`,
/// `authority`).
[[nodiscard]] Json to_json(const Task& task);

/// All there is to know about it, for people or as JSON.
void print_task(const Context& context, const Task& task);
/// A task in a list for people, and what its columns are called.
[[nodiscard]] std::vector<std::string> task_columns();
[[nodiscard]] std::vector<std::string> task_row(const Task& task);
/// One line on stderr for what a list had to leave out.
void complain_unreadable(const Context& context, std::string_view owner, const Error& error);
/// What a change answers: nothing for people, who know what they did, and the task as JSON.
void print_changed(const Context& context, const Task& task);

/// The variable `progress` for people: a number with decimals up to 1 is a fraction, one above 1 and up to
/// 100 a percentage. A plain 1 may be either, so it is shown as it is, and so is text. Empty if there is
/// none. Fit to print, in a few columns.
[[nodiscard]] std::string progress_of(const Task& task);
/// How long ago by this machine's wall clock.
[[nodiscard]] std::string age_of(std::int64_t ms_since_epoch);
/// Until a task is gone; empty for one that stays.
[[nodiscard]] std::string time_left(const Task& task);

}  // namespace holdfast::cli
