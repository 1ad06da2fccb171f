#include "process/stop_count.hpp"

#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace holdfast::cli {

namespace {

/// A semaphore counts to 32,767: one command must not use that up.
constexpr unsigned highest_of_one = 4096;

key_t key_of_this_user() noexcept {
  constexpr std::uint32_t name = 0x68'66'73'63;  // "hfsc"
  constexpr std::uint32_t spread = 2'654'435'761;
  return static_cast<key_t>(name ^ (static_cast<std::uint32_t>(geteuid()) * spread));
}

}  // namespace

StopCount::StopCount() noexcept {
  (void)open();
}

StopCount::~StopCount() {
  set(0);
}

bool StopCount::open() noexcept {
  id_ = semget(key_of_this_user(), 1, IPC_CREAT | 0600);
  if (id_ < 0) return false;
  // Another user may have made one under this key, and could change it.
  semid_ds about{};
  if (semctl(id_, 0, IPC_STAT, &about) != 0 || about.sem_perm.cuid != geteuid() ||
      about.sem_perm.uid != geteuid() || (about.sem_perm.mode & 0077) != 0) {
    id_ = -1;
  }
  return id_ >= 0;
}

bool StopCount::add(int change) noexcept {
  sembuf operation{.sem_num = 0, .sem_op = static_cast<short>(change), .sem_flg = SEM_UNDO | IPC_NOWAIT};
  return change == 0 || semop(id_, &operation, 1) == 0;
}

void StopCount::set(unsigned processes) noexcept {
  own_ = processes;
  const auto wanted = std::min(processes, highest_of_one);
  if (wanted == mine_ || id_ < 0) return;
  bool added = add(static_cast<int>(wanted) - static_cast<int>(mine_));
  if (!added && (errno == EIDRM || errno == EINVAL)) {
    // Removed, as systemd-logind does when its user logs out.
    mine_ = 0;
    added = open() && add(static_cast<int>(wanted));
  }
  if (added) mine_ = wanted;
  // ERANGE: it is full, and so says enough. Anything else: others cannot add to it either.
  works_ = added || errno == ERANGE;
}

std::optional<unsigned> StopCount::total() noexcept {
  if (id_ < 0 || !works_) return std::nullopt;
  int value = semctl(id_, 0, GETVAL);
  if (value < 0) {
    mine_ = 0;
    if (!open()) return std::nullopt;
    set(own_);
    value = semctl(id_, 0, GETVAL);
  }
  if (value < 0 || !works_) return std::nullopt;
  return std::max(static_cast<unsigned>(value), mine_) + (own_ - mine_);
}

}  // namespace holdfast::cli
