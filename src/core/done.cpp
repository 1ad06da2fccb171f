#include <holdfast/done.hpp>

namespace holdfast::detail {
namespace {

/// Trivially destructible, so that a static object's destructor may still complete operations.
struct Queue {
  Deferred* first = nullptr;
  Deferred* last = nullptr;
  bool busy = false;
};
thread_local Queue queue;

}  // namespace

bool Trampoline::busy() noexcept {
  return queue.busy;
}

void Trampoline::defer(std::unique_ptr<Deferred> work) noexcept {
  Deferred* added = work.release();
  (queue.first != nullptr ? queue.last->next_ : queue.first) = added;
  queue.last = added;
}

void Trampoline::drain() noexcept {
  while (queue.first != nullptr) {
    const std::unique_ptr<Deferred> work(queue.first);
    queue.first = work->next_;
    work->run();
  }
}

Trampoline::Scope::Scope() noexcept {
  queue.busy = true;
}

Trampoline::Scope::~Scope() {
  drain();
  queue.busy = false;
}

}  // namespace holdfast::detail
