#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace holdfast::serve {

struct Token {
  std::string text;
  bool created = false;  ///< the file was not there
};

/// Returns why such a file cannot hold the token of a process of user `self`; empty if it can. Root may have
/// written it for a service.
[[nodiscard]] std::string_view problem_of_token_file(const struct stat& status, uid_t self) noexcept;

/// Returns the token in the file: its first line, at least 32 printable ASCII characters. Creates the file,
/// mode 0600, with a new token if it is not there; its directory must exist. Throws Error(InvalidArgument) if
/// the file is invalid, belongs to another user than this one and root, or can be read by users other than
/// its owner and its group. `option`: the one that named the file, for messages.
[[nodiscard]] Token read_or_create_token(const std::filesystem::path& path,
                                         const std::string& option = "--token-file");

}  // namespace holdfast::serve
