#include <holdfast/lock_backend.hpp>
#include <holdfast/storage_backend.hpp>

namespace holdfast {
namespace {

/// Work that this thread deferred may be what finishes the completion that is waited for.
void wait_here(Completion& completion) {
  detail::Trampoline::drain();
  completion.wait();
}

}  // namespace

void LockBackend::wait(Completion& completion) {
  wait_here(completion);
}
void StorageBackend::wait(Completion& completion) {
  wait_here(completion);
}

}  // namespace holdfast
