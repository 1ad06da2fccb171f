#include "metrics/metrics_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "arguments/values.hpp"
#include "rpc/posix/descriptor.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

using posix::Descriptor;

constexpr std::string_view ending = ".prom";
constexpr std::size_t longest_job = 64;
/// A larger one is not ours.
constexpr std::size_t longest_old_content = std::size_t{4} * 1024 * 1024;
/// Another process of the directory is busy with its own file for milliseconds. One that hangs must not hold
/// up the end of a job: then a file that both write may miss a count.
constexpr std::chrono::milliseconds turn_timeout{1000};

bool is_job_name(std::string_view name) {
  return !name.empty() && name.size() <= longest_job && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '@';
  });
}

/// Hidden, and without the ending that node_exporter looks for. The random part keeps it apart from what a
/// process that was killed has left.
std::string temporary_name(const std::string& name) {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<std::uint64_t>(getpid());
  std::array<char, 17> digits{};
  (void)std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(random));
  return "." + name + "." + digits.data() + ".tmp";
}

Descriptor create_temporary(const std::string& path) noexcept {
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
}

/// A file in a directory such as /tmp that belongs to another user cannot be replaced.
bool belongs_to_another(const struct stat& directory, const struct stat& file) noexcept {
  const auto self = geteuid();
  return (directory.st_mode & S_ISVTX) != 0 && self != 0 && file.st_uid != self && directory.st_uid != self;
}

[[noreturn]] void throw_unreadable(int error) {
  throw std::runtime_error(std::string("the old file cannot be read: ") + std::strerror(error));
}

/// The content of the file that is there; empty if there is none, or if it is anything but a regular file.
/// One that cannot be read is not an empty one: the last success in it would be lost.
std::string old_content(const std::string& path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 && errno != ENOENT) throw_unreadable(errno);
  if (!S_ISREG(status.st_mode)) return {};
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno != ENOENT && errno != ELOOP) throw_unreadable(errno);
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  std::string content;
  std::array<char, 16'384> buffer{};
  while (content.size() <= longest_old_content) {
    const auto size = read(fd.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw_unreadable(errno);
    if (size == 0) break;
    content.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return content.size() <= longest_old_content ? content : std::string();
}

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto size = write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

/// The turn of this process, until the descriptor is closed. Without the right to read the directory, or if
/// it takes too long, there is none.
Descriptor take_turn(const std::string& directory) {
  Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto give_up_at = std::chrono::steady_clock::now() + turn_timeout;
  while (fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (std::chrono::steady_clock::now() >= give_up_at) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw UsageError("--metrics-file: " + quote(path) + " " + why);
}

}  // namespace

void MetricsFile::Options::add_to(Command command, const std::string& what) {
  command
      .add_option("--metrics-file PATH", path,
                  what +
                      " for Prometheus: PATH is in the directory of node_exporter's\n"
                      "textfile collector and ends in .prom")
      .not_empty();
  command
      .add_option("--metrics-job NAME", job,
                  "Name of this job in the metrics (default: the name of the file, without .prom)")
      .not_empty();
}

MetricsFile::MetricsFile(const Options& options) {
  if (!options.path) {
    if (options.job) throw UsageError("--metrics-job: needs --metrics-file");
    return;
  }
  path_ = *options.path;
  const auto slash = path_.rfind('/');
  name_ = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  directory_ = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  if (!name_.ends_with(ending) || name_.size() == ending.size() || name_.starts_with('.')) {
    refuse_file(path_, "must be named NAME.prom: node_exporter ignores other files");
  }
  job_ = options.job ? *options.job : name_.substr(0, name_.size() - ending.size());
  if (!is_job_name(job_)) {
    throw UsageError("--metrics-job: " + quote(job_) +
                     " is not a name: use 1 to 64 of the characters a-z A-Z 0-9 _ - . : @");
  }
  struct stat file{};
  struct stat directory{};
  if (lstat(path_.c_str(), &file) == 0) {
    if (S_ISDIR(file.st_mode)) refuse_file(path_, "is a directory");
    if (stat(directory_.c_str(), &directory) == 0 && belongs_to_another(directory, file)) {
      refuse_file(path_, "belongs to another user and cannot be replaced");
    }
  }
  const auto temporary = directory_ + "/" + temporary_name(name_);
  if (!create_temporary(temporary)) {
    refuse_file(path_, std::string("cannot be written: ") + std::strerror(errno));
  }
  (void)unlink(temporary.c_str());
}

std::string MetricsFile::replace(
    const std::function<std::string(const OldContent& old)>& content) const noexcept {
  try {
    const auto turn = take_turn(directory_);
    const auto text = content([this] { return old_content(path_); });
    const auto temporary = directory_ + "/" + temporary_name(name_);
    auto fd = create_temporary(temporary);
    if (!fd) return std::strerror(errno);
    // Not synchronised with the disk: after a crash of the machine, the next run writes the file again.
    bool written = write_all(fd.get(), text);
    int error = errno;
    // Some file systems report a full disk only here.
    if (::close(fd.release()) != 0 && std::exchange(written, false)) error = errno;
    if (written && rename(temporary.c_str(), path_.c_str()) == 0) return {};
    if (written) error = errno;
    (void)unlink(temporary.c_str());
    return std::strerror(error);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace holdfast::cli
