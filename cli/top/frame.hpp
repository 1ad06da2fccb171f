#pragma once

#include <chrono>
#include <holdfast/clock.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "top/cells.hpp"
#include "top/state.hpp"
#include "view/snapshot.hpp"

namespace holdfast::cli::top {

struct Size {
  std::size_t columns = 80;
  std::size_t lines = 24;
  friend bool operator==(const Size&, const Size&) = default;
};

/// What a frame depends on beside snapshot and state.
struct FrameInput {
  Size size = {};
  BootTime now = {};
  std::string_view store = {};  ///< the URL, without a password
  bool unicode = true;          ///< the terminal shows UTF-8
};

/// The whole screen: `size.lines` lines of at most `size.columns` columns.
struct Frame {
  std::vector<Line> lines;
  /// Where text is typed, as line and column; empty: nowhere.
  std::optional<std::pair<std::size_t, std::size_t>> cursor = std::nullopt;
};

/// Returns how many rows of a table a screen shows in this state.
[[nodiscard]] std::size_t visible_rows(const view::Snapshot& snapshot, const State& state, Size size);
/// Returns the screen; a pure function. `rows` are those of snapshot and state, and the state is settled.
[[nodiscard]] Frame compose(const view::Snapshot& snapshot, const Rows& rows, const State& state,
                            const FrameInput& around);

/// Returns a duration in at most four columns: "0.4s", "24s", "12m", "5h", "3d".
[[nodiscard]] std::string short_duration(std::chrono::milliseconds length);
/// Returns a bar of so many columns, filled to this fraction.
[[nodiscard]] std::string bar(double fraction, std::size_t columns, bool unicode);

}  // namespace holdfast::cli::top
