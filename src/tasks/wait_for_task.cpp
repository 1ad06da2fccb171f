#include "tasks/wait_for_task.hpp"

#include <algorithm>

namespace holdfast::tasks {
namespace {

using std::chrono::milliseconds;

/// Poll interval if changes wake us: for changes by other software, expiry and lost wake-ups.
constexpr milliseconds look_again_woken(1000);
/// Poll interval without wake-ups.
constexpr milliseconds look_again_polling(200);
/// A wait survives a store that is unreachable for up to this long.
constexpr milliseconds longest_absence = std::chrono::minutes(1);

/// `what` is its caller's.
runtime::Op<std::optional<Task>> look_until(const WaitForTask& what) {
  const auto& [flow, storage, key, get, until, deadline, stop] = what;
  // The watch comes before the first look, so that no change falls between them.
  WatchRecord request{.key = key, .deadline = deadline};
  auto watching = co_await flow.ask(storage, std::move(request), stop);
  const auto watch = watching ? *std::move(watching) : nullptr;
  std::optional<BootTime> away_since;
  for (;;) {
    if (stop.stop_requested()) {
      co_return Error(ErrorCode::Aborted, "the wait for the task was stopped").about(key.task(), {});
    }
    const auto asked = BootClock::now();
    auto task = co_await get();
    if (task) {
      if (until.is_user_code) co_await flow.leave_io_thread();
      if (until.is_so(*task)) co_return *std::move(task);
      away_since.reset();
    } else {
      if (!task.error().transient()) co_return task.error();
      const auto since = away_since.value_or(asked);
      if (BootClock::now() >= std::min(deadline, saturating_add(since, longest_absence))) {
        co_return task.error();
      }
      away_since = since;
    }
    const auto now = BootClock::now();
    if (now >= deadline) co_return std::nullopt;
    const auto look_again = now + (watch ? look_again_woken : look_again_polling);
    (void)co_await flow.wait(watch.get(), look_again, deadline, stop);
  }
}

}  // namespace

runtime::Op<std::optional<Task>> wait_for_task(WaitForTask what) {
  auto looking = look_until(what);
  auto ended = co_await std::move(looking);
  // The predicate is destroyed with this operation, and its destructor is user code too.
  if (what.until.is_user_code) co_await what.flow.leave_io_thread();
  co_return ended;
}

}  // namespace holdfast::tasks
