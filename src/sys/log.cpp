#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <holdfast/log.hpp>
#include <mutex>

#include "sys/worker_pool.hpp"

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

/// What jobs of the sink's thread use. They share it, because that thread may outlive the Log.
class Delivery {
 public:
  void set_sink(LogSink sink) {
    auto next = std::make_shared<LogSink>(std::move(sink));
    const std::lock_guard lock(mutex_);
    sink_.swap(next);  // the old one ends after the mutex is free
  }

  /// False if the sink is too far behind.
  bool enter() noexcept {
    if (queued_.fetch_add(1) < max_queued) return true;
    leave();
    dropped_.fetch_add(1);
    return false;
  }
  void leave() noexcept { queued_.fetch_sub(1); }

  void deliver(LogLevel level, std::string_view message) noexcept {
    if (const auto dropped = dropped_.exchange(0); dropped > 0) {
      call(LogLevel::warning, std::to_string(dropped) + " messages were dropped");
    }
    call(level, message);
  }

 private:
  void call(LogLevel level, std::string_view message) noexcept {
    std::shared_ptr<LogSink> sink;
    {
      const std::lock_guard lock(mutex_);
      sink = sink_;
    }
    try {
      (*sink)(level, message);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a sink's failure has nowhere else to go
    }
  }

  std::atomic<std::size_t> queued_{0};
  std::atomic<std::size_t> dropped_{0};
  std::mutex mutex_;
  std::shared_ptr<LogSink> sink_ = std::make_shared<LogSink>(write_to_stderr);
};

}  // namespace

class Log::Impl {
 public:
  const std::shared_ptr<Delivery> delivery = std::make_shared<Delivery>();
  sys::WorkerPool thread{1};
};

Log::Log() : impl_(std::make_unique<Impl>()) {}
Log::~Log() = default;

void Log::set_sink(LogSink sink) {
  impl_->delivery->set_sink(std::move(sink));
}

void Log::write(LogLevel level, std::string message) noexcept {
  if (!impl_->delivery->enter()) return;
  try {
    impl_->thread.post([delivery = impl_->delivery, level, message = std::move(message)] {
      delivery->deliver(level, message);
      delivery->leave();
    });
  } catch (...) {  // out of memory: the message is lost, the operation is not
    impl_->delivery->leave();
  }
}

void Log::flush() {
  if (sys::WorkerPool::on_library_thread() || !impl_->thread.is_home()) return;
  auto reached = std::make_shared<std::promise<void>>();
  impl_->thread.post([reached] { reached->set_value(); });
  reached->get_future().wait();
}

}  // namespace holdfast
