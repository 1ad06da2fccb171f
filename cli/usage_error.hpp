#pragma once

#include <stdexcept>

namespace holdfast::cli {

/// What was typed cannot be done: exit 64. The text says what was wrong and what to type instead.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace holdfast::cli
