#include <holdfast/done.hpp>

namespace holdfast::detail {
namespace {

struct Queue {
  std::unique_ptr<Deferred> first;
  Deferred* last = nullptr;
  bool busy = false;
};
thread_local Queue queue;

}  // namespace

bool Trampoline::busy() noexcept {
  return queue.busy;
}

void Trampoline::defer(std::unique_ptr<Deferred> work) noexcept {
  Deferred* added = work.get();
  if (queue.first) {
    queue.last->next_ = std::move(work);
  } else {
    queue.first = std::move(work);
  }
  queue.last = added;
}

void Trampoline::drain() noexcept {
  while (queue.first) {
    const auto work = std::move(queue.first);
    queue.first = std::move(work->next_);
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
