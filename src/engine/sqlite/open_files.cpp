#include "engine/sqlite/open_files.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "sys/process.hpp"

namespace holdfast::sqlite {
namespace {

struct Entry {
  FileIdentity file;
  sys::Birthplace opened_in;
};

struct Registry {
  std::mutex mutex;
  std::vector<Entry> entries;
};

/// Never destroyed: backends in static storage may end later.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

OpenFile::OpenFile(FileIdentity file) : file_(file) {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  entries.push_back({.file = file, .opened_in = {}});
}

OpenFile::~OpenFile() {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  const auto mine = std::ranges::find_if(
      entries, [&](const Entry& entry) { return entry.file == file_ && entry.opened_in.is_here(); });
  if (mine != entries.end()) entries.erase(mine);
}

bool OpenFile::inherited(FileIdentity file) {
  auto& [mutex, entries] = registry();
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(
      entries, [&](const Entry& entry) { return entry.file == file && !entry.opened_in.is_here(); });
}

}  // namespace holdfast::sqlite
