#include "engine/sqlite/clock.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <holdfast/clock.hpp>
#include <iterator>
#include <sstream>

#include "engine/sqlite/file_checks.hpp"
#include "os/errno_error.hpp"

namespace holdfast::sqlite {
namespace {

constexpr const char* boot_id_file = "/proc/sys/kernel/random/boot_id";
constexpr const char* namespace_file = "/proc/self/ns/time";
constexpr const char* childrens_namespace_file = "/proc/self/ns/time_for_children";
constexpr const char* offsets_file = "/proc/self/timens_offsets";
/// The inode of the initial time namespace: TIME_NS_INIT_INO in newer kernels' linux/nsfs.h, the same since
/// time namespaces exist.
constexpr ino_t initial_time_namespace = 0xEFFFFFFAU;

std::int64_t wall_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(since_epoch).count();
}

/// A container manager that gives each container its own boot id (systemd-nspawn, LXC) mounts a file over the
/// kernel's.
Result<bool> is_kernels_own(const char* file) {
  struct statfs system{};
  if (::statfs(file, &system) != 0) return os::errno_error(std::string("cannot inspect ") + file);
  if (system.f_type != PROC_SUPER_MAGIC) return false;
  const auto mounted_over = is_mount_point(file);
  if (!mounted_over) return mounted_over.error();
  return !*mounted_over;
}

struct TimeNamespace {
  ino_t initial = 0;  ///< 0: this kernel has none
  std::chrono::nanoseconds offset{};
};

Result<TimeNamespace> this_time_namespace() {
  struct stat mine{}, childrens{};
  if (::stat(namespace_file, &mine) != 0) {
    if (errno == ENOENT) return TimeNamespace{};
    return os::errno_error(std::string("cannot determine the time namespace: ") + namespace_file);
  }
  if (mine.st_ino == initial_time_namespace)
    return TimeNamespace{.initial = initial_time_namespace, .offset = {}};
  // The offsets are those of the namespace that children will be in. They are fixed once a process is in it.
  std::ifstream in(offsets_file);
  const auto offset = boot_time_offset(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!offset || ::stat(childrens_namespace_file, &childrens) != 0 || childrens.st_ino != mine.st_ino) {
    return Error(ErrorCode::ServiceUnavailable,
                 std::string("cannot determine the clock offset of this time namespace: ") + offsets_file +
                     " does not apply to this process; start a new program in the namespace");
  }
  return TimeNamespace{.initial = initial_time_namespace, .offset = *offset};
}

}  // namespace

std::optional<std::chrono::nanoseconds> boot_time_offset(std::string_view timens_offsets) {
  std::istringstream lines{std::string(timens_offsets)};
  std::string clock;
  std::int64_t seconds = 0, nanoseconds = 0;
  while (lines >> clock >> seconds >> nanoseconds) {
    if (clock == "boottime") return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds);
  }
  return std::nullopt;
}

Result<Clock> machine_clock() {
  ClockIdentity identity;
  errno = 0;
  std::ifstream(boot_id_file) >> identity.boot_id;
  if (identity.boot_id.empty()) {
    if (errno == EMFILE || errno == ENFILE) {
      return os::errno_error(std::string("cannot determine the boot id: ") + boot_id_file);
    }
    return Error(ErrorCode::ServiceUnavailable, std::string("cannot determine the boot id: ") + boot_id_file +
                                                    " cannot be read; mount /proc");
  }
  const auto kernels = is_kernels_own(boot_id_file);
  if (!kernels) return kernels.error();
  identity.is_kernels = *kernels;
  const auto time_namespace = this_time_namespace();
  if (!time_namespace) return time_namespace.error();
  identity.time_namespace = static_cast<std::int64_t>(time_namespace->initial);
  const auto boot_ms = [offset = time_namespace->offset] {
    const auto kernels_time = BootClock::now().time_since_epoch() - offset;
    return std::chrono::floor<std::chrono::milliseconds>(kernels_time).count();
  };
  return Clock{.boot_ms = boot_ms, .wall_ms = wall_ms, .identity = std::move(identity)};
}

}  // namespace holdfast::sqlite
