#include <array>
#include <cstdint>
#include <holdfast/duration.hpp>
#include <optional>

namespace holdfast {
namespace {

using std::chrono::milliseconds;

/// A century: longer than any real wait, and far below where nanoseconds overflow 64 bits.
constexpr milliseconds longest = std::chrono::days(36525);

struct Unit {
  std::string_view name;
  std::uint64_t ms;
};
constexpr std::array<Unit, 6> units{
    {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::string_view take_digits(std::string_view& text) noexcept {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const auto digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

/// Empty if there are more than 18 significant digits.
std::optional<std::uint64_t> number(std::string_view digits) noexcept {
  while (!digits.empty() && digits.front() == '0') digits.remove_prefix(1);
  if (digits.size() > 18) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return value;
}

Error refusal(const char* why) {
  return {ErrorCode::InvalidArgument, why};
}

}  // namespace

Result<milliseconds> parse_duration(std::string_view text) {
  if (text.size() > 1 && text.front() == '-' && (is_digit(text[1]) || text[1] == '.')) {
    return refusal("is negative; use a duration of zero or more");
  }
  const auto whole_digits = take_digits(text);
  std::string_view fraction;
  bool well_formed = true;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    fraction = take_digits(text);
    well_formed = !fraction.empty();
  }
  well_formed = well_formed && (!whole_digits.empty() || !fraction.empty());
  const Unit* unit = nullptr;
  for (const auto& known : units) {
    if (text == known.name) unit = &known;
  }
  if (!well_formed || unit == nullptr) {
    return refusal("is not a duration; use seconds (30, 0.5) or a unit (500ms, 30s, 5m, 2h, 1d)");
  }

  const auto whole = number(whole_digits);
  if (!whole || *whole > static_cast<std::uint64_t>(longest.count()) / unit->ms) {
    return refusal("is too long; the longest duration is 36525d");
  }
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  // Nine digits of the longest unit fit 64 bits; a tenth digit is finer than a millisecond in every practical
  // unit.
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i < fraction.size() && i < 9; ++i) scale *= 10;
  const auto part = number(fraction);
  if (fraction.size() > 9 || !part || *part * unit->ms % scale != 0) {
    return refusal("is not a whole number of milliseconds");
  }
  return milliseconds(static_cast<std::int64_t>(*whole * unit->ms + *part * unit->ms / scale));
}

std::string duration_text(milliseconds length) {
  const auto ms = length.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

}  // namespace holdfast
