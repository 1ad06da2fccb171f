#include "core/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace holdfast::core {
namespace {

using CodePoint = utf8proc_int32_t;

constexpr auto composed_form = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

/// Removes and returns the first code point; negative if it is not valid UTF-8.
CodePoint take_code_point(std::string_view& text) noexcept {
  CodePoint point = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &point);
  if (length <= 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(length));
  return point;
}

/// Sorts the marks between two starters into canonical order: by combining class, stable within a class.
/// utf8proc_map swaps neighbours instead, which takes hours for a long run of marks. (std::stable_sort of
/// libstdc++ 12 does not compile under clang 19 without a warning.)
void order_marks(std::vector<CodePoint>& points) {
  const auto class_of = [](CodePoint point) { return utf8proc_get_property(point)->combining_class; };
  const auto is_starter = [&](CodePoint point) { return class_of(point) == 0; };
  for (auto at = points.begin(); at != points.end();) {
    at = std::find_if_not(at, points.end(), is_starter);
    const auto end = std::find_if(at, points.end(), is_starter);
    if (end - at > 1) {
      const std::vector<CodePoint> marks(at, end);
      constexpr int position_bits = 48;  // below the class
      std::vector<std::uint64_t> order;
      order.reserve(marks.size());
      for (std::uint64_t i = 0; i < marks.size(); ++i) {
        order.push_back((static_cast<std::uint64_t>(class_of(marks[i])) << position_bits) | i);
      }
      std::ranges::sort(order);
      for (const auto one : order) *at++ = marks[one & ((std::uint64_t{1} << position_bits) - 1)];
    }
    at = end;
  }
}

enum class Certainty : std::uint8_t {
  certain,       ///< assigned, or never to be assigned: certain with any neighbour
  certain_mark,  ///< assigned, and combines with its neighbours
  depends,       ///< unassigned: certain unless a neighbour is unassigned too, or a mark
  never,         ///< unassigned, in a range where only characters with decompositions are expected
};

bool is_in(CodePoint point, CodePoint first, CodePoint last) noexcept {
  return point >= first && point <= last;
}

Certainty certainty_of(CodePoint point) noexcept {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Certainty::certain_mark;
    case UTF8PROC_CATEGORY_CN:
      break;
    default:
      return Certainty::certain;
  }
  const bool noncharacter = (point & 0xFFFE) == 0xFFFE || is_in(point, 0xFDD0, 0xFDEF);
  const bool compatibility_ideograph = is_in(point, 0xF900, 0xFAFF) || is_in(point, 0x2F800, 0x2FA1F);
  const bool reserved_for_emoji = is_in(point, 0x1F000, 0x1FAFF) || is_in(point, 0x1FC00, 0x1FFFD);
  const bool reserved_for_ideographs = is_in(point, 0x20000, 0x3FFFD);
  if (compatibility_ideograph) return Certainty::never;
  if (noncharacter || reserved_for_emoji || reserved_for_ideographs) return Certainty::certain;
  return Certainty::depends;
}

}  // namespace

bool is_ascii(std::string_view text) noexcept {
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::uint64_t word = 0;
  for (; text.size() >= sizeof word; text.remove_prefix(sizeof word)) {
    std::memcpy(&word, text.data(), sizeof word);
    if ((word & high_bits) != 0) return false;
  }
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Result<std::string> nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);

  std::vector<CodePoint> points;
  points.reserve(text.size());
  while (!text.empty()) {
    const auto point = take_code_point(text);
    if (point < 0) {
      return Error(ErrorCode::InvalidArgument, "the text is not valid UTF-8",
                   utf8proc_errmsg(UTF8PROC_ERROR_INVALIDUTF8));
    }
    std::array<CodePoint, 32> parts{};  // a code point decomposes into four at most
    int unused = 0;
    const auto count = utf8proc_decompose_char(point, parts.data(), parts.size(), composed_form, &unused);
    points.insert(points.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(points);
  const auto length =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), composed_form);
  std::string composed;
  composed.reserve(points.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto size = utf8proc_encode_char(points[static_cast<std::size_t>(i)], bytes.data());
    composed.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
  }
  return composed;
}

std::optional<std::int32_t> uncertain_code_point(std::string_view normalised) {
  if (is_ascii(normalised)) return std::nullopt;
  CodePoint before = 0;
  auto beside = Certainty::certain;
  while (!normalised.empty()) {
    const auto point = take_code_point(normalised);
    if (point < 0) return std::nullopt;  // then it is not in normal form
    const auto here = point < 0x300 ? Certainty::certain : certainty_of(point);
    if (here == Certainty::never) return point;
    if (here == Certainty::depends && beside != Certainty::certain) return point;
    if (here == Certainty::certain_mark && beside == Certainty::depends) return before;
    before = point;
    beside = here;
  }
  return std::nullopt;
}

std::string_view unicode_version() noexcept {
  return utf8proc_unicode_version();
}

}  // namespace holdfast::core
