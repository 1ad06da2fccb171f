#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <holdfast/clock.hpp>
#include <holdfast/task_types.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::cli {

/// Sends the output of commands to their tasks, so that it can be read from anywhere. One thread for all
/// commands of this process, with one small request at a time: so output never delays the renewal of a lease
/// by more than that, and a slow store blocks no command. What a store does not accept in time is kept up to
/// the limit of each stream, and then dropped from its beginning, as the store itself does it.
class OutputKeeper {
 public:
  /// How much of each stream is kept by default.
  static constexpr int usual_bytes = 64 * 1024;
  /// The greatest number of bytes in one request.
  static constexpr std::size_t most_at_once = std::size_t{32} * 1024;
  /// Between two requests for one command.
  static constexpr std::chrono::milliseconds pause{200};
  /// After a store did not answer.
  static constexpr std::chrono::milliseconds pause_after_error{500};

  /// Appends; throws Error. Everything but the token, the incarnation and the attempt is set.
  using Append = std::function<void(NewOutput)>;

  /// The output of one command.
  class Log {
   public:
    Log(OutputKeeper& keeper, Append append) : keeper_(keeper), append_(std::move(append)) {}
    /// Stream 0 is stdout, 1 is stderr. From any thread; does not wait.
    void write(std::size_t stream, std::string_view bytes);

   private:
    friend class OutputKeeper;
    struct Stream {
      std::uint64_t at = 0;  ///< the position of the first byte of `pending`
      std::string pending;
    };
    [[nodiscard]] bool has_pending() const noexcept {
      return !streams_[0].pending.empty() || !streams_[1].pending.empty() || (is_ended_ && !is_end_sent_);
    }

    OutputKeeper& keeper_;
    const Append append_;
    // Under the keeper's mutex.
    std::array<Stream, 2> streams_;
    BootTime next_{};
    bool is_ended_ = false;
    bool is_end_sent_ = false;
    bool is_refused_ = false;  ///< the task accepts no more
  };

  /// `keep`: bytes of each stream, not 0.
  explicit OutputKeeper(std::size_t keep);
  /// Tries for a moment to send what is left.
  ~OutputKeeper();
  OutputKeeper(const OutputKeeper&) = delete;
  OutputKeeper& operator=(const OutputKeeper&) = delete;

  [[nodiscard]] std::shared_ptr<Log> begin(Append append);
  /// The command has ended. Waits until its output was sent, but not for long: its outcome is more important.
  /// What is left is sent later.
  void end(const std::shared_ptr<Log>& log);

 private:
  void keep_sending();
  [[nodiscard]] std::shared_ptr<Log> next_log(BootTime now, BootTime& wait_until);
  void send(std::unique_lock<std::mutex>& lock, Log& log);

  const std::size_t keep_;
  std::mutex mutex_;
  std::condition_variable changed_, sent_;
  std::vector<std::shared_ptr<Log>> logs_;
  std::size_t turn_ = 0;
  BootTime give_up_at_ = never;
  std::thread thread_;  ///< started with the first log
};

}  // namespace holdfast::cli
