#pragma once

#if __cplusplus < 202002L
#error "Holdfast needs C++20: compile with -std=c++20"
#endif

/// @file
/// Includes the whole API except the headers of single engines (memory.hpp, sqlite.hpp, redis.hpp), the
/// checks of doctor.hpp and the adapters for other libraries (asio.hpp, nlohmann.hpp).

/// @namespace holdfast
/// Named locks with a lease and a fencing token, and durable tasks, on one of several engines.
///
/// Terms that the comments of all headers use:
/// - *engine*: the implementation that stores locks and tasks: memory, SQLite or Redis. Its data is the
///   *store*.
/// - *lease*: the time for which the engine reserves a lock for its holder. It lasts for the *ttl* and can be
///   renewed.
/// - *guard*: an object that holds a lock, renews its lease and releases the lock (holdfast::Guard).
/// - *fence*: the fencing token of a grant. Each grant of a key has a higher fence than all earlier grants.
/// - *authority*: the id of the store that counts the fences. Fences of different authorities are not
///   comparable.
/// - *lock id*: the secret that identifies one grant. A process that knows it can release the lock.
///
/// @code
/// #include <holdfast/holdfast.hpp>
///
/// auto hf = holdfast::open("sqlite:");
/// auto guard = hf.locks().lock("orders:42", {.ttl = 30s, .wait = 5s});
/// update_order(42, guard.fence());
/// // the destructor of the guard releases the lock
/// @endcode
///
/// All functions may be called from any thread unless their comment restricts it. A function whose return
/// type is Result returns its errors; other functions throw holdfast::Error.
#include <holdfast/fenced_register.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/open.hpp>
#include <holdfast/printable.hpp>
#include <holdfast/queue.hpp>
#include <holdfast/tasks.hpp>
#include <holdfast/version.hpp>
