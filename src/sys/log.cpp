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

class Log::Impl {
 public:
  void set_sink(LogSink sink) {
    auto shared = std::make_shared<LogSink>(std::move(sink));
    const std::lock_guard lock(mutex_);
    sink_ = std::move(shared);
  }

  void deliver(LogLevel level, std::string_view message) noexcept {
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

  std::atomic<std::size_t> queued{0};
  std::atomic<std::size_t> dropped{0};

 private:
  std::mutex mutex_;
  std::shared_ptr<LogSink> sink_ = std::make_shared<LogSink>(write_to_stderr);

 public:
  sys::WorkerPool thread{1};
};

Log::Log() : impl_(std::make_shared<Impl>()) {}
Log::~Log() = default;

void Log::set_sink(LogSink sink) {
  impl_->set_sink(std::move(sink));
}

void Log::write(LogLevel level, std::string message) noexcept {
  if (impl_->queued.fetch_add(1) >= max_queued) {
    impl_->queued.fetch_sub(1);
    impl_->dropped.fetch_add(1);
    return;
  }
  try {
    impl_->thread.post([impl = impl_.get(), level, message = std::move(message)] {
      if (const auto dropped = impl->dropped.exchange(0); dropped > 0) {
        impl->deliver(LogLevel::warning, std::to_string(dropped) + " messages were dropped");
      }
      impl->deliver(level, message);
      impl->queued.fetch_sub(1);
    });
  } catch (...) {  // out of memory or threads: the message is lost, the operation is not
    impl_->queued.fetch_sub(1);
  }
}

void Log::flush() {
  if (sys::WorkerPool::on_library_thread()) return;
  auto reached = std::make_shared<std::promise<void>>();
  impl_->thread.post([reached] { reached->set_value(); });
  reached->get_future().wait();
}

}  // namespace holdfast
