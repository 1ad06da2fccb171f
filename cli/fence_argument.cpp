#include "fence_argument.hpp"

#include <charconv>

#include "output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {

Fence parse_fence(std::string_view where, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) {
    if (const auto fence = Fence::of(value)) return *fence;
  }
  throw UsageError(std::string(where) + ": " + quote(text) +
                   " is no fence; write its 15 digits or the plain number, 000000000000042 or 42");
}

}  // namespace holdfast::cli
