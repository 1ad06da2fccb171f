#include "support/asio_thread.hpp"

namespace holdfast::test {

AsioThread::AsioThread() : thread_([context = context_] { context->run(); }) {}

AsioThread::~AsioThread() {
  if (!in_own_process()) {
    // In a forked child the thread is the parent's: leak it untouched.
    new std::thread(std::move(thread_));
    new std::shared_ptr<asio::io_context>(std::move(context_));
    return;
  }
  work_.reset();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // it shares ownership of the context
  } else {
    thread_.join();
  }
}

}  // namespace holdfast::test
