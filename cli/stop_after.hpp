#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace holdfast::cli {

/// A stop token that is triggered after a while: bounds a call whose store may not answer.
class StopAfter {
 public:
  explicit StopAfter(std::chrono::milliseconds length)
      : thread_([this, length](const std::stop_token& ended) {
          std::unique_lock lock(mutex_);
          never_.wait_for(lock, ended, length, [] { return false; });
          if (!ended.stop_requested()) source_.request_stop();
        }) {}

  [[nodiscard]] std::stop_token token() const noexcept { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;
};

}  // namespace holdfast::cli
