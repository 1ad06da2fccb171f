#include "engine/sqlite/shared_memory.hpp"

#include <sys/mman.h>

#include <cerrno>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace holdfast::sqlite {
namespace {

/// Those of SQLite's VFS "unix": the same for each main file.
const sqlite3_io_methods* unix_methods = nullptr;

int map_shared_memory(sqlite3_file* file, int region, int bytes, int extend, void volatile** memory) {
  const int result = unix_methods->xShmMap(file, region, bytes, extend, memory);
  if (result != SQLITE_OK || *memory == nullptr) return result;
  if (reserve_pages(const_cast<void*>(*memory), static_cast<std::size_t>(bytes))) return SQLITE_OK;
  // SQLite would use a region that it has, whatever the result: it must not know this one. The file keeps it
  // mapped, and gives it again at the next attempt.
  *memory = nullptr;
  return SQLITE_IOERR_SHMSIZE;
}

sqlite3_io_methods methods_like(const sqlite3_io_methods& original) noexcept {
  unix_methods = &original;
  auto methods = original;
  methods.xShmMap = map_shared_memory;
  return methods;
}

}  // namespace

bool reserve_pages(void* memory, std::size_t bytes) noexcept {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EFAULT) return true;  // an older kernel, or larger pages than SQLite's regions
  errno = ENOSPC;
  return false;
}

void reserve_shared_memory_of(sqlite3* connection) noexcept {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file)) !=
          SQLITE_OK ||
      file == nullptr || file->pMethods == nullptr || file->pMethods->xShmMap == nullptr) {
    return;
  }
  static const sqlite3_io_methods reserving = methods_like(*file->pMethods);
  file->pMethods = &reserving;
}

}  // namespace holdfast::sqlite
