#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace holdfast::core {

/// The number if the whole text is one: decimal digits, before them a minus sign if N is signed, and a value
/// that N holds. Empty otherwise.
template <std::integral N>
[[nodiscard]] std::optional<N> whole_number(std::string_view text) noexcept {
  N number = 0;
  const auto* const begin = text.data();
  const auto* const end = begin + text.size();
  const auto [at, failed] = std::from_chars(begin, end, number);
  return failed == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

}  // namespace holdfast::core
