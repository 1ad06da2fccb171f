#pragma once

#include <chrono>
#include <holdfast/open.hpp>

#include "process/job_control.hpp"

namespace holdfast::cli::top {

struct LiveOptions {
  std::chrono::milliseconds interval;
  bool colours = true;
};

/// Shows the store on the terminal until the user quits or a signal comes; returns the exit code. `signals`:
/// those that end, stop and resize it, blocked in all threads.
[[nodiscard]] int show_live(const Holdfast& store, SignalQueue& signals, const LiveOptions& options);

}  // namespace holdfast::cli::top
