#include "process_list.hpp"

#include <algorithm>
#include <string_view>

namespace holdfast::cli {
namespace {

void hide_password(char* argument) noexcept {
  const std::string_view text(argument);
  for (const std::string_view scheme : {"redis://", "rediss://"}) {
    const auto start = text.find(scheme);
    const auto at = text.rfind('@');
    if (start == std::string_view::npos || at == std::string_view::npos) continue;
    const auto colon = text.find(':', start + scheme.size());
    if (colon < at) std::fill(argument + colon + 1, argument + at, '*');
  }
}

}  // namespace

void hide_passwords(int argc, char** argv) noexcept {
  std::for_each(argv, argv + argc, hide_password);
}

}  // namespace holdfast::cli
