#include "locks/runtime.hpp"

#include "locks/await.hpp"

namespace holdfast {

void LockRuntime::abandon(const LockKey& key, const LockId& id) {
  // The backend, not the runtime: the job must not be what keeps its own thread's owner alive.
  renewer.post([backend = backend, key, id] {
    // Whether it held anything, or could be reached at all, changes nothing: the lease ends by itself.
    (void)locks::release(*backend, {.lock = {.id = id, .key = key}, .durability = Durability::process});
  });
}

}  // namespace holdfast
