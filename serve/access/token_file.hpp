#pragma once

#include <filesystem>
#include <string>

namespace holdfast::serve {

struct Token {
  std::string text;
  bool created = false;  ///< the file was not there
};

/// Returns the token in the file: its first line, at least 32 printable ASCII characters. Creates the file,
/// mode 0600, with a new token if it is not there; its directory must exist. Throws Error(InvalidArgument) if
/// the file is invalid, or if other users than its owner and its group can read it.
[[nodiscard]] Token read_or_create_token(const std::filesystem::path& file);

}  // namespace holdfast::serve
