#pragma once

#include <compare>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/owned.hpp>
#include <holdfast/result.hpp>
#include <iosfwd>
#include <string>
#include <string_view>
#include <version>
#ifdef __cpp_lib_format
#include <format>
#endif

namespace holdfast {

/// A fencing token: strictly increasing for each lock key. Whoever is written to under a lock keeps the
/// highest fence seen and refuses a lower one; that is what makes a late write of a former holder harmless.
/// Fences are ordered alike as values and as their 15-digit strings.
class HOLDFAST_EXPORT Fence {
 public:
  static constexpr std::uint64_t warn_above = 90'000'000'000'000;
  static constexpr std::uint64_t max_issued = 900'000'000'000'000;
  static constexpr std::uint64_t max_value = 999'999'999'999'999;

  constexpr Fence() noexcept = default;
  /// InvalidArgument above max_value: it would not fit 15 digits.
  [[nodiscard]] static Result<Fence> of(std::uint64_t value);
  /// Accepts exactly 15 decimal digits; anything else is InvalidArgument.
  [[nodiscard]] static Result<Fence> parse(std::string_view text);

  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
  /// 15 digits, padded with zeros.
  [[nodiscard]] std::string to_string() const;

  friend constexpr auto operator<=>(Fence, Fence) noexcept = default;
  /// Writes to_string().
  friend std::ostream& operator<<(std::ostream& out, Fence fence);

 private:
  explicit constexpr Fence(std::uint64_t value) noexcept : value_(value) {}
  std::uint64_t value_ = 0;
};

template <>
struct detail::OwnedArgument<Fence> : OwnedAsItIs<Fence> {};

}  // namespace holdfast

#ifdef __cpp_lib_format
/// Formats Fence::to_string(), with the format specification of a string.
template <>
struct std::formatter<holdfast::Fence> : std::formatter<std::string> {
  auto format(holdfast::Fence fence, auto& context) const {
    return std::formatter<std::string>::format(fence.to_string(), context);
  }
};
#endif
