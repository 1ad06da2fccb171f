#pragma once

#include <atomic>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "runtime/timer_queue.hpp"

namespace holdfast::runtime {

class Runtime;

/// A step that waits for a thread while all threads that may block are blocked. It ends once, by the first of
/// three events: a thread becomes free, the deadline passes, or a stop is requested. As with a sleep, a stop
/// request fires the timer now.
class Turn final : public Timed {
 public:
  using Begin = std::function<void()>;
  using Refuse = std::function<void(Error)>;

  /// Calls one of the two, perhaps before this returns: `begin` on a thread that may block, or `refuse` on
  /// one for user code, with NetworkTimeout at the deadline and with Aborted soon after a stop request.
  /// Throws, and calls neither, if the machine has no thread for that.
  static void wait(const std::shared_ptr<Runtime>& runtime, BootTime deadline, std::stop_token stop,
                   Begin begin, Refuse refuse);

  Turn(std::shared_ptr<Runtime> runtime, std::stop_token stop, Begin begin, Refuse refuse);
  ~Turn() override;
  BootTime on_time(BootTime now) override;

 private:
  struct Wake {
    Turn* turn;
    void operator()() const;
  };

  void start(BootTime deadline);
  void take();
  /// True for the first caller only: it alone may continue with the members.
  [[nodiscard]] bool ends_now();

  /// A thread of the pool may be the last owner of this object.
  const std::shared_ptr<Runtime> runtime_;
  const std::stop_token stop_;
  Begin begin_;
  Refuse refuse_;
  std::mutex starting_;  ///< held until `start` has finished
  std::atomic<bool> ended_ = false;
  std::optional<std::stop_callback<Wake>> on_stop_;
};

}  // namespace holdfast::runtime
