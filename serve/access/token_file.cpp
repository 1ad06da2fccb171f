#include "serve/access/token_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <holdfast/error.hpp>
#include <holdfast/printable.hpp>
#include <optional>

#include "rpc/posix/descriptor.hpp"
#include "serve/access/secrets.hpp"

namespace holdfast::serve {
namespace {

namespace fs = std::filesystem;
using posix::Descriptor;

/// A file, and the option that named it.
struct NamedFile {
  const fs::path& path;
  const std::string& option;
  [[nodiscard]] const char* c_str() const noexcept { return path.c_str(); }
};

[[noreturn]] void refuse_token(const NamedFile& file, const std::string& why, int error = 0) {
  throw Error(ErrorCode::InvalidArgument, file.option + " \"" + printable(file.path.string()) + "\": " + why,
              error != 0 ? std::strerror(error) : "");
}

std::optional<std::string> token_in(const NamedFile& file) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return std::nullopt;
  if (!fd) refuse_token(file, "cannot be opened", errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) refuse_token(file, "cannot be inspected", errno);
  if (const auto why = problem_of_token_file(status, geteuid()); !why.empty()) {
    refuse_token(file, std::string(why));
  }
  std::array<char, 4096> buffer{};
  const auto size = read(fd.get(), buffer.data(), buffer.size());
  if (size < 0) refuse_token(file, "cannot be read", errno);
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  text = text.substr(0, text.find_first_of("\r\n"));
  constexpr std::size_t shortest = 32;
  constexpr std::size_t longest = 1024;
  if (text.size() < shortest || text.size() > longest ||
      !std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; })) {
    refuse_token(file,
                 "its first line must be 32 to 1024 printable ASCII characters without spaces. Remove the "
                 "file to get a new token.");
  }
  return std::string(text);
}

/// The file appears with its whole content: another process that starts now reads all of it.
bool create_token(const NamedFile& file, const std::string& token) {
  const auto temporary = file.path.string() + "." + std::to_string(getpid()) + ".new";
  (void)unlink(temporary.c_str());
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) refuse_token(file, "cannot be created", errno);
  const auto line = token + "\n";
  const bool written = fchmod(fd.get(), S_IRUSR | S_IWUSR) == 0 &&
                       write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       fsync(fd.get()) == 0;
  const int error = errno;
  const bool linked = written && link(temporary.c_str(), file.c_str()) == 0;
  const int link_error = errno;
  (void)unlink(temporary.c_str());
  if (!written) refuse_token(file, "cannot be written", error);
  if (!linked && link_error != EEXIST) refuse_token(file, "cannot be created", link_error);
  return linked;
}

}  // namespace

std::string_view problem_of_token_file(const struct stat& status, uid_t self) noexcept {
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  if (status.st_uid != self && status.st_uid != 0) {
    return "belongs to another user, who knows the token. Use a file of your own.";
  }
  if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return "other users can access it. Run chmod 600 on it.";
  }
  return {};
}

Token read_or_create_token(const fs::path& path, const std::string& option) {
  const NamedFile file{path, option};
  if (auto token = token_in(file)) return {.text = *std::move(token), .created = false};
  auto token = new_secret();
  if (create_token(file, token)) return {.text = std::move(token), .created = true};
  auto other = token_in(file);
  if (!other) refuse_token(file, "was removed while it was read");
  return {.text = *std::move(other), .created = false};
}

}  // namespace holdfast::serve
