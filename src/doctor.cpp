#include <fcntl.h>
#include <unistd.h>

#include <holdfast/doctor.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>

#include "engine/sqlite/examine.hpp"
#include "url.hpp"

namespace holdfast {
namespace {

Result<std::vector<Finding>> examine_sqlite(std::string_view path) {
  if (!path.empty()) return sqlite::examine(std::filesystem::path(path));
  const auto file = default_sqlite_file();
  if (!file) return file.error();
  std::error_code ignored;
  if (std::filesystem::exists(file->parent_path(), ignored)) return sqlite::examine(*file);
  // Its first use makes the directories that are missing: in the first one that is there.
  auto there = file->parent_path();
  while (there.has_relative_path() && !std::filesystem::exists(there, ignored)) there = there.parent_path();
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return std::vector<Finding>{
        {Severity::problem, "file",
         file->string() + " does not exist, and this user cannot create its directory in " + there.string(),
         "set HOME or XDG_STATE_HOME to a directory that this user can write to, or use sqlite:PATH"}};
  }
  return std::vector<Finding>{
      {Severity::note, "file", file->string() + " does not exist yet; its first use creates it", {}}};
}

}  // namespace

Result<std::vector<Finding>> examine(std::string_view url, const Progress& progress) {
  switch (engine_of(url)) {
    case EngineKind::memory:
      return std::vector<Finding>{
          {Severity::note, "memory", "locks of one process: they keep no other out",
           "use sqlite: for the processes of a machine, redis:// for several machines"}};
    case EngineKind::sqlite:
      return examine_sqlite(url.substr(sqlite_scheme.size()));
    case EngineKind::redis: {
      const auto options = parse_redis_url(url);
      if (!options) return options.error();
      return examine_redis(*options, progress);
    }
    case EngineKind::unknown:
      break;
  }
  return unknown_url(url);
}

Result<RedisAcl> redis_acl(std::string_view url) {
  switch (engine_of(url)) {
    case EngineKind::redis: {
      const auto options = parse_redis_url(url);
      if (!options) return options.error();
      return redis_acl(*options);
    }
    case EngineKind::memory:
    case EngineKind::sqlite:
      return Error(ErrorCode::InvalidArgument,
                   "only a Redis has users with an ACL; give a URL of one (redis://…)");
    case EngineKind::unknown:
      break;
  }
  return unknown_url(url);
}

}  // namespace holdfast
