#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <holdfast/fence.hpp>
#include <ostream>

namespace holdfast {
namespace {
constexpr std::size_t digits = 15;
}

Result<Fence> Fence::of(std::uint64_t value) {
  if (value > max_value) {
    return Error(ErrorCode::InvalidArgument,
                 "invalid fence " + std::to_string(value) + ": more than 15 digits");
  }
  return Fence(value);
}

Result<Fence> Fence::parse(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() != digits || !std::ranges::all_of(text, is_digit)) {
    return Error(ErrorCode::InvalidArgument, "invalid fence: must be exactly 15 decimal digits");
  }
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return Fence(value);
}

std::string Fence::to_string() const {
  std::array<char, digits + 1> text{};
  std::snprintf(text.data(), text.size(), "%0*llu", static_cast<int>(digits),
                static_cast<unsigned long long>(value_));
  return text.data();
}

std::ostream& operator<<(std::ostream& out, Fence fence) {
  return out << fence.to_string();
}

}  // namespace holdfast
