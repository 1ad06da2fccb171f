#include <cstdio>
#include <cstdlib>
#include <holdfast/log.hpp>
#include <mutex>

#include "runtime/delivery_queue.hpp"

namespace holdfast {
namespace {

constexpr std::size_t max_queued = 1000;

bool wants_debug_lines() {
#ifdef NDEBUG
  const char* set = std::getenv("HOLDFAST_DEBUG");
  return set != nullptr && std::string_view(set) == "1";
#else
  return true;
#endif
}

void write_to_stderr(LogLevel level, std::string_view message) {
  if (level == LogLevel::debug && !wants_debug_lines()) return;
  std::fprintf(stderr, "holdfast: %s: %.*s\n", std::string(to_string(level)).c_str(),
               static_cast<int>(message.size()), message.data());
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

namespace {

struct Message {
  LogLevel level;
  std::string text;
};

/// The current sink. Shared with the thread that calls it, which may outlive the Log.
class Sink {
 public:
  void set(LogSink sink) {
    auto next = std::make_shared<LogSink>(std::move(sink));
    const std::lock_guard lock(mutex_);
    sink_.swap(next);  // the old one ends after the mutex is free
  }

  void call(LogLevel level, std::string_view message) {
    std::shared_ptr<LogSink> sink;
    {
      const std::lock_guard lock(mutex_);
      sink = sink_;
    }
    (*sink)(level, message);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<LogSink> sink_ = std::make_shared<LogSink>(write_to_stderr);
};

}  // namespace

class [[gnu::visibility("hidden")]] Log::Impl {
 public:
  const std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  runtime::DeliveryQueue<Message> queue{max_queued, [sink = sink](Message& message, std::size_t dropped) {
                                          if (dropped > 0) report_dropped(dropped, *sink);
                                          sink->call(message.level, message.text);
                                        }};

 private:
  static void report_dropped(std::size_t dropped, Sink& sink) noexcept {
    try {
      sink.call(LogLevel::warning, std::to_string(dropped) + " log messages were dropped");
    } catch (...) {  // NOLINT(bugprone-empty-catch): the messages after it must still be delivered
    }
  }
};

Log::Log() : impl_(std::make_unique<Impl>()) {}
Log::~Log() = default;

void Log::set_sink(LogSink sink) {
  impl_->sink->set(std::move(sink));
}

void Log::write(LogLevel level, std::string message) noexcept {
  impl_->queue.push({level, std::move(message)});
}

void Log::flush() {
  impl_->queue.flush();
}

}  // namespace holdfast
