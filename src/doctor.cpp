#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <holdfast/doctor.hpp>
#include <holdfast/open.hpp>
#include <holdfast/redis.hpp>
#include <holdfast/sqlite.hpp>
#include <iterator>

#include "engine/sqlite/backends.hpp"
#include "engine/sqlite/file_locations.hpp"
#include "queue/health.hpp"
#include "store_limits.hpp"
#include "url.hpp"

namespace holdfast {
namespace {

using Findings = std::vector<Finding>;
namespace fs = std::filesystem;

/// The finding, followed by the findings about the file if its directory exists.
Result<Findings> with_file(Finding store, const fs::path& file) {
  std::error_code ignored;
  Findings findings{std::move(store)};
  if (!fs::exists(file.parent_path(), ignored)) {
    // The first use creates the missing directories in the nearest one that exists.
    auto there = file.parent_path();
    while (there.has_relative_path() && !fs::exists(there, ignored)) there = there.parent_path();
    if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) == 0) {
      findings.push_back(
          {Severity::note, "file", file.string() + " does not exist yet; it is created on first use", {}});
    } else {
      findings.push_back(
          {Severity::problem, "file",
           file.string() + " does not exist, and this user cannot create its directory in " + there.string(),
           "set HOME or XDG_STATE_HOME to a directory that this user can write to, or use sqlite:PATH"});
    }
    return findings;
  }
  const auto in_file = sqlite::examine_file(file);
  if (!in_file) return in_file.error();
  findings.insert(findings.end(), in_file->begin(), in_file->end());
  return findings;
}

Result<Findings> examine_users_file() {
  const auto file = default_sqlite_file();
  if (!file) return file.error();
  return with_file(
      {Severity::note, "store",
       "this user's default store: other users of this machine, including root, do not see its locks",
       "to share locks between users, use the URL system: or sqlite:PATH"},
      *file);
}

Result<Findings> examine_system_file() {
  const fs::path file(system_sqlite_file);
  std::error_code ignored;
  if (!fs::exists(file.parent_path(), ignored)) {
    return Findings{{Severity::note, "store",
                     "the store of this machine: " + file.string() + " does not exist yet",
                     "as root: " + sqlite::how_to_share(file.parent_path())}};
  }
  if (const auto usable = sqlite::check_shared_file(file); !usable) return usable.error();
  return with_file(
      {Severity::ok, "store", "the store of this machine, shared by every process that may access it", {}},
      file);
}

/// As many queues are examined, and for as long: names are found by a scan.
constexpr std::size_t most_queues = 100;
constexpr std::chrono::seconds queue_timeout{3};
/// Of each queue, the newest.
constexpr std::size_t tasks_read = 50;

/// Without the rights that queues need, or if the store fails now, there are none: the findings about the
/// store itself say why.
std::vector<queue::ExaminedQueue> examined_queues(std::string_view url) {
  std::vector<queue::ExaminedQueue> queues;
  const auto give_up_at = BootClock::now() + queue_timeout;
  try {
    const auto store = open(url);
    std::string cursor;
    do {
      const auto page = store.queues(cursor, most_queues);
      cursor = page.cursor;
      for (const auto& name : page.queues) {
        if (queues.size() == most_queues || BootClock::now() >= give_up_at) return queues;
        const auto queue = store.queue(name);
        queue::ExaminedQueue examined{.name = name, .counts = queue.counts()};
        if (examined.counts.records == 0 && !examined.counts.paused) continue;
        for (const auto& task : queue.list({.limit = tasks_read}).tasks) {
          ++examined.newest;
          if (task.status == TaskStatus::failed) ++examined.failed;
        }
        queues.push_back(std::move(examined));
      }
    } while (!cursor.empty() && BootClock::now() < give_up_at);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see above
  }
  return queues;
}

void add_queues(std::string_view url, Findings& findings) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  auto more = queue::judge_queues(examined_queues(url), findings, now);
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Whether a file was examined that exists; a check must not create one.
bool has_file(const Findings& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) { return finding.topic == "locks"; });
}

Result<Findings> examine_store(std::string_view url, const Progress& progress) {
  switch (engine_of(url)) {
    case EngineKind::memory:
      return Findings{{Severity::note, "memory", "locks in this process only: they exclude no other process",
                       "use sqlite: for processes on one machine, redis:// for several machines"}};
    case EngineKind::sqlite: {
      const auto path = url.substr(sqlite_scheme.size());
      return path.empty() ? examine_users_file() : sqlite::examine_file(fs::path(path));
    }
    case EngineKind::system:
      return examine_system_file();
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

}  // namespace

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      return "problem";
  }
  return "problem";
}

Result<std::vector<Finding>> examine(std::string_view given, const Progress& progress) {
  const auto limited = split_limits(given);
  if (!limited) return limited.error();
  const auto split = split_holder(limited->url);
  if (!split) return split.error();
  auto findings = examine_store(split->url, progress);
  if (!findings) return findings.error();
  const auto engine = engine_of(split->url);
  if (engine == EngineKind::redis || (engine != EngineKind::memory && has_file(*findings))) {
    add_queues(split->url, *findings);
  }
  return findings;
}

Result<RedisAcl> redis_acl(std::string_view given) {
  const auto limited = split_limits(given);
  if (!limited) return limited.error();
  const std::string_view url = limited->url;
  switch (engine_of(url)) {
    case EngineKind::redis: {
      const auto options = parse_redis_url(url);
      if (!options) return options.error();
      return redis_acl(*options);
    }
    case EngineKind::memory:
    case EngineKind::sqlite:
    case EngineKind::system:
      return Error(ErrorCode::InvalidArgument,
                   "only a Redis server has users with an ACL; pass a URL such as redis://HOST");
    case EngineKind::unknown:
      break;
  }
  return unknown_url(url);
}

}  // namespace holdfast
