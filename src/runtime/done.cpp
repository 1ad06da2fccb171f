#include <holdfast/done.hpp>

namespace holdfast::detail {
namespace {

/// Trivially destructible, so that a static object's destructor may still complete operations.
struct Queue {
  Deferred* first = nullptr;
  Deferred* last = nullptr;
  bool busy = false;
  bool completing = false;
};
thread_local Queue queue;

void complete(Deferred& work) noexcept {
  const bool was_completing = std::exchange(queue.completing, true);
  work.run();
  queue.completing = was_completing;
}

}  // namespace

bool Trampoline::busy() noexcept {
  return queue.busy;
}

bool Trampoline::completing() noexcept {
  return queue.completing;
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
    complete(*work);
  }
}

void Trampoline::run(Deferred& work) noexcept {
  const Scope scope;
  complete(work);
}

Trampoline::Scope::Scope() noexcept {
  queue.busy = true;
}

Trampoline::Scope::~Scope() {
  drain();
  queue.busy = false;
}

}  // namespace holdfast::detail
