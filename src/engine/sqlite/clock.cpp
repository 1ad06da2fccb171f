#include "engine/sqlite/clock.hpp"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <holdfast/clock.hpp>

#include "sys/errno_error.hpp"

namespace holdfast::sqlite {
namespace {

std::int64_t boot_ms() {
  return std::chrono::floor<std::chrono::milliseconds>(BootClock::now().time_since_epoch()).count();
}

std::int64_t wall_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(since_epoch).count();
}

Result<ClockIdentity> this_boot() {
  constexpr const char* boot_id_file = "/proc/sys/kernel/random/boot_id";
  constexpr const char* namespace_file = "/proc/self/ns/time";
  ClockIdentity identity;
  std::ifstream(boot_id_file) >> identity.boot_id;
  if (identity.boot_id.empty()) {
    return Error(ErrorCode::ServiceUnavailable,
                 std::string("cannot tell one boot of this machine from another: ") + boot_id_file +
                     " cannot be read; mount /proc");
  }
  struct stat time_namespace{};
  if (::stat(namespace_file, &time_namespace) == 0) {
    identity.time_namespace = static_cast<std::int64_t>(time_namespace.st_ino);
  } else if (errno != ENOENT) {  // a kernel without time namespaces has one clock for all
    return sys::errno_error(std::string("cannot tell which time namespace this is: ") + namespace_file);
  }
  return identity;
}

}  // namespace

Result<Clock> machine_clock() {
  auto identity = this_boot();
  if (!identity) return identity.error();
  return Clock{.boot_ms = boot_ms, .wall_ms = wall_ms, .identity = *std::move(identity)};
}

}  // namespace holdfast::sqlite
