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

/// The fencing token of a grant. Under one authority, each grant of a key has a higher fence than all earlier
/// grants of that key.
///
/// A receiver of writes that a lock protects stores the highest fence it has seen, and rejects a write with a
/// lower one. So a late write of a former holder does no damage. Fences have the same order as numbers and as
/// their 15-digit texts. Fences of different keys or authorities are not comparable.
///
/// @code
/// // UPDATE orders SET ..., fence = :fence WHERE id = 42 AND fence <= :fence
/// const std::string text = guard.fence().to_string();  // "000000000000007"
/// @endcode
class HOLDFAST_EXPORT Fence {
 public:
  /// A grant above this writes a warning, with the key's hash, to the log.
  static constexpr std::uint64_t warn_above = 90'000'000'000'000;
  /// The highest fence that is granted. After it, an acquire fails with Internal and holds nothing.
  static constexpr std::uint64_t max_issued = 900'000'000'000'000;
  /// The highest value that 15 digits can express.
  static constexpr std::uint64_t max_value = 999'999'999'999'999;

  /// Constructs the fence 0, which is lower than every granted fence.
  constexpr Fence() noexcept = default;
  /// Returns the fence with this value. InvalidArgument above max_value.
  [[nodiscard]] static Result<Fence> of(std::uint64_t value);
  /// Parses the text of to_string(). InvalidArgument unless it is exactly 15 decimal digits.
  [[nodiscard]] static Result<Fence> parse(std::string_view text);

  /// Returns the fence as a number.
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
  /// Returns 15 digits, padded with zeros.
  [[nodiscard]] std::string to_string() const;

  /// Compares the values.
  friend constexpr auto operator<=>(Fence, Fence) noexcept = default;
  /// Writes to_string().
  friend HOLDFAST_EXPORT std::ostream& operator<<(std::ostream& out, Fence fence);

 private:
  explicit constexpr Fence(std::uint64_t value) noexcept : value_(value) {}
  std::uint64_t value_ = 0;
};

template <>
struct detail::OwnedArgument<Fence> : OwnedAsItIs<Fence> {};

}  // namespace holdfast

#ifdef __cpp_lib_format
/// Formats the text of Fence::to_string(). Accepts the format specification of a string.
template <>
struct std::formatter<holdfast::Fence> : std::formatter<std::string> {
  auto format(holdfast::Fence fence, auto& context) const {
    return std::formatter<std::string>::format(fence.to_string(), context);
  }
};
#endif
