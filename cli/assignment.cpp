#include "assignment.hpp"

namespace holdfast::cli {

std::optional<std::pair<std::string, std::string>> split_assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  return std::pair{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

}  // namespace holdfast::cli
