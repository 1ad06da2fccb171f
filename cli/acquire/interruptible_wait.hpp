#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "process/signals.hpp"
#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

/// Whether a message on stderr names the lock that is waited for.
enum class Announce : std::uint8_t { on_a_terminal, always, never };

/// Handles signals while the main thread opens a store, tries to acquire a lock and waits for it. Ctrl-Z
/// stops the process as usual. INT, TERM, HUP and QUIT end it, depending on the stage that the main thread
/// has reached:
///
/// - opening (from the construction on): nothing can be held, so the process exits at once with 128 + the
/// number
///   of the signal, whatever blocks;
/// - attempting: a lock may be granted at any moment, so stop() is triggered and the main thread ends what it
///   began;
/// - waiting: the same, and after a second stderr names what is waited for.
class InterruptibleWait {
 public:
  InterruptibleWait(SignalQueue& signals, Announce announce);
  ~InterruptibleWait();
  InterruptibleWait(const InterruptibleWait&) = delete;
  InterruptibleWait& operator=(const InterruptibleWait&) = delete;

  /// To be called before the first request that may leave a lock or a task behind.
  void begin_attempts() noexcept;
  /// `name`: of what is waited for, printable.
  void begin_waiting(std::string name);

  [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }
  /// Stops listening and returns the signal that triggered stop(), if one did.
  std::optional<int> finish();

 private:
  enum class Stage : std::uint8_t { opening, attempting, waiting, finished };

  void listen();
  void end_by(int signal);
  void enter(Stage stage, std::string name = {});

  SignalQueue& signals_;
  bool announces_;
  std::mutex mutex_;  ///< guards the next two
  Stage stage_ = Stage::opening;
  std::string name_;
  std::stop_source stop_;
  std::optional<int> signal_;
  posix::Descriptor changed_;
  std::thread thread_;
};

}  // namespace holdfast::cli
