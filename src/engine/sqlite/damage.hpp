#pragma once

#include <string>

#include "engine/sqlite/connection.hpp"

namespace holdfast::sqlite {

/// The file holds something that no program of ours wrote.
[[nodiscard]] inline Error damaged(const Connection& connection, const std::string& what) {
  return {ErrorCode::Internal, "cannot use " + connection.file() + ": " + what +
                                   "; stop its users and restore the file or move it away"};
}

}  // namespace holdfast::sqlite
