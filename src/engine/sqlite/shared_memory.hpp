#pragma once

#include <sqlite3.h>

#include <cstddef>

namespace holdfast::sqlite {

/// Gives each page of a writable mapping of a file its place on the disk. False, with errno ENOSPC, if there
/// is none: using the page would kill the process (SIGBUS). True if the kernel cannot do that (before 5.14).
[[nodiscard]] bool reserve_pages(void* memory, std::size_t bytes) noexcept;

/// Makes a connection whose main file was just opened reserve its shared memory (-shm) before it uses it.
/// SQLite writes one byte into each 4 KiB of it, which leaves holes where the blocks of the file system are
/// smaller: on a full disk they killed the process.
void reserve_shared_memory_of(sqlite3* connection) noexcept;

}  // namespace holdfast::sqlite
