#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <holdfast/lock_types.hpp>
#include <memory>
#include <string>
#include <vector>

#include "os/process.hpp"

namespace holdfast {
namespace os {
namespace {

std::string user_name(uid_t user) {
  std::vector<char> buffer(1024);
  passwd entry{};
  passwd* found = nullptr;
  int failed = 0;
  while ((failed = getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < 65'536) {
    buffer.resize(buffer.size() * 2);
  }
  if (failed != 0 || found == nullptr || *found->pw_name == '\0') return std::to_string(user);
  return found->pw_name;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// The base name of a process's executable; empty if it cannot be read. Not argv[0]: a program may have
/// overwritten that with its arguments.
std::string program_name(const std::string& process) {
  std::array<char, PATH_MAX> path{};
  const auto length = readlink(("/proc/" + process + "/exe").c_str(), path.data(), path.size());
  if (length <= 0) return {};
  std::string_view name(path.data(), static_cast<std::size_t>(length));
  name.remove_prefix(name.rfind('/') + 1);
  // The kernel adds it when the file was replaced while the program runs, as by an upgrade.
  constexpr std::string_view deleted = " (deleted)";
  if (name.ends_with(deleted)) name.remove_suffix(deleted.size());
  return std::string(name);
}

std::shared_ptr<const LockHolder> label(const std::string& user, const std::string& host, std::int64_t pid,
                                        std::string_view program) {
  auto text = user + "@" + host + ":" + std::to_string(pid);
  if (!program.empty()) text.append(" ").append(program);
  return std::make_shared<const LockHolder>(LockHolder::shortened(text).value());
}

/// The parts of this process's label. Those that were made before a fork or a setuid are kept, because
/// another thread may still use them: there are few.
struct OwnLabel {
  std::uint64_t process;
  uid_t user_id;
  std::string user, host, program;
  std::shared_ptr<const LockHolder> text;
  const OwnLabel* before;
};

/// A pointer without a mutex: at a fork, a thread that does not exist in the child could hold one.
const OwnLabel& own_label() {
  static std::atomic<const OwnLabel*> newest = nullptr;
  const auto process = this_process();
  const auto user_id = geteuid();
  const auto* known = newest.load();
  if (known != nullptr && known->process == process && known->user_id == user_id) return *known;
  // A forked child does not ask for what the parent knows: the lookup of a user is not safe after a fork.
  auto made = std::make_unique<OwnLabel>();
  made->process = process;
  made->user_id = user_id;
  made->user = known != nullptr && known->user_id == user_id ? known->user : user_name(user_id);
  made->host = known != nullptr ? known->host : host_name();
  made->program = known != nullptr ? known->program : program_name("self");
  made->text = label(made->user, made->host, getpid(), made->program);
  made->before = known;
  while (!newest.compare_exchange_weak(made->before, made.get())) {
  }
  return *made.release();
}

}  // namespace
}  // namespace os

std::shared_ptr<const LockHolder> LockHolder::of_this_process() {
  return os::own_label().text;
}

std::shared_ptr<const LockHolder> LockHolder::of_this_process(std::string_view program) {
  const auto& own = os::own_label();
  return os::label(own.user, own.host, getpid(), program);
}

std::shared_ptr<const LockHolder> LockHolder::of_process(std::int64_t pid, std::uint32_t user_id) {
  if (pid <= 0) return nullptr;
  const auto& own = os::own_label();
  return os::label(user_id == own.user_id ? own.user : os::user_name(user_id), own.host, pid,
                   os::program_name(std::to_string(pid)));
}

}  // namespace holdfast
