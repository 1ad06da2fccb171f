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

/// A step's wait for a thread, when all that may block do. It ends once, whoever comes first: a thread takes
/// it, its time is up, or it is stopped. As with a sleep, a stop request ends nothing itself, it makes it
/// time.
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
  /// True for the first to ask, who alone goes on with what is in here.
  [[nodiscard]] bool ends_now();

  /// A thread of the pool may be the last to hold this.
  const std::shared_ptr<Runtime> runtime_;
  const std::stop_token stop_;
  Begin begin_;
  Refuse refuse_;
  std::mutex starting_;  ///< until `start` is through with it
  std::atomic<bool> ended_ = false;
  std::optional<std::stop_callback<Wake>> on_stop_;
};

}  // namespace holdfast::runtime
