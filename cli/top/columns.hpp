#pragma once

#include <string>
#include <vector>

#include "top/frame.hpp"

namespace holdfast::cli::top {

/// The columns of a table, as wide as the screen allows: a narrow one shows fewer.
class Columns {
 public:
  /// All arguments must outlive it.
  Columns(const Rows& rows, const State& state, const FrameInput& around, WallTime engine_now);
  [[nodiscard]] Line heading() const;
  [[nodiscard]] Line row(std::size_t index) const;

 private:
  enum class What : std::uint8_t {
    key,
    holder,
    fence,
    lease,
    waiters,
    held,
    owner,
    method,
    status,
    progress,
    worker,
    age,
    time,
    event,
    queue,
    state,
    ready,
    delayed,
    working,
    exhausted,
    tasks,
    oldest
  };
  struct Column {
    What what;
    std::size_t width;
    bool right = false;  ///< numbers: aligned to the right
  };
  void choose_lock_columns();
  void choose_task_columns();
  void choose_event_columns();
  void choose_queue_columns();
  [[nodiscard]] static std::string_view name_of(What what) noexcept;
  void add_cell(Line& line, const Column& column, std::size_t end, std::string_view text, Style style) const;
  void add_lock_cell(Line& line, const Column& column, std::size_t end, const view::LockRow& row) const;
  void add_task_cell(Line& line, const Column& column, std::size_t end, const view::TaskRow& row) const;
  void add_event_cell(Line& line, const Column& column, std::size_t end, const view::Event& event) const;
  void add_queue_cell(Line& line, const Column& column, std::size_t end, const view::QueueRow& row) const;
  void add_bar(Line& line, double fraction, std::size_t width, std::string_view text, Style style) const;
  [[nodiscard]] std::string shortened(std::string_view text, std::size_t width) const;

  const Rows& rows_;
  const State& state_;
  const FrameInput& around_;
  const WallTime now_;
  std::vector<Column> columns_;
};

/// Returns 2026-01-31 23:59:59Z.
[[nodiscard]] std::string utc(WallTime time);

}  // namespace holdfast::cli::top
