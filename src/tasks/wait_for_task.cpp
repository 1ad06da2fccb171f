#include "tasks/wait_for_task.hpp"

#include <algorithm>

#include "sys/sleep.hpp"

namespace holdfast::tasks {
namespace {

using std::chrono::milliseconds;

/// Where changes wake us: for those of other software, for expiry, and for a wake-up that got lost.
constexpr milliseconds look_again_woken(1000);
/// Where nothing does.
constexpr milliseconds look_again_polling(200);
/// A store that is away for a while does not end a wait, one that stays away does.
constexpr milliseconds longest_absence = std::chrono::minutes(1);

}  // namespace

std::optional<Task> wait_for_task(StorageBackend& storage, const RecordKey& key,
                                  const std::function<Task()>& get,
                                  const std::function<bool(const Task&)>& until, BootTime deadline,
                                  const std::stop_token& stop) {
  // The watch comes before the first look, so that no change falls between them.
  const auto watch = storage.watch(key, deadline, stop);
  std::optional<BootTime> away_since;
  for (;;) {
    if (stop.stop_requested()) {
      throw Error(ErrorCode::Aborted, "stopped while waiting for a task").about(key.task(), {});
    }
    const auto asked = BootClock::now();
    try {
      auto task = get();
      if (until(task)) return task;
      away_since.reset();
    } catch (const Error& error) {
      if (!error.transient()) throw;
      const auto since = away_since.value_or(asked);
      if (BootClock::now() >= std::min(deadline, saturating_add(since, longest_absence))) throw;
      away_since = since;
    }
    const auto now = BootClock::now();
    if (now >= deadline) return std::nullopt;
    const auto look_again = std::min(deadline, now + (watch ? look_again_woken : look_again_polling));
    if (watch) {
      (void)watch->wait(look_again, look_again, stop);
    } else {
      sys::sleep_until(look_again, stop);
    }
  }
}

}  // namespace holdfast::tasks
