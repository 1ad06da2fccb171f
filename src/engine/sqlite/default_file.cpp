#include <cstdlib>
#include <holdfast/sqlite.hpp>

namespace holdfast {
namespace {

/// Nothing unless absolute: the XDG specification says that a relative one is to be ignored.
std::filesystem::path absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);
  std::filesystem::path path(value == nullptr ? "" : value);
  return path.is_absolute() ? path : std::filesystem::path();
}

}  // namespace

Result<std::filesystem::path> default_sqlite_file() {
  auto state = absolute_path_in("XDG_STATE_HOME");
  if (state.empty()) {
    const auto home = absolute_path_in("HOME");
    if (home.empty()) {
      return Error(ErrorCode::InvalidArgument,
                   "there is no default database file: neither XDG_STATE_HOME nor HOME is an absolute path; "
                   "set one, or name the file");
    }
    state = home / ".local" / "state";
  }
  return state / "holdfast" / "holdfast.db";
}

}  // namespace holdfast
