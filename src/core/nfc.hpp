#pragma once

#include <cstdint>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::core {

/// The text in Unicode's normal form C, in time proportional to its length. InvalidArgument if it is not
/// valid UTF-8.
[[nodiscard]] Result<std::string> nfc(std::string_view text);

/// No text is more than so many times as long, in bytes, as its normal form. So a text of more than
/// `nfc_shrinks_at_most * limit` bytes can be refused before it is normalised.
///
/// Both have the same code points once they are decomposed, whatever their order. Where one code point is
/// written as another that is only a longer way to write it (K as the KELVIN SIGN: 3 bytes for 1) and the
/// composed one is shorter than its parts (a Hangul syllable: 3 bytes for 9), both add up. The worst is
/// U+0390, 2 bytes, written as U+1FBE U+0308 U+0301, 7 bytes. NormalForm.ShrinksByNoMoreThanItsBound computes
/// it from utf8proc's data.
inline constexpr std::size_t nfc_shrinks_at_most = 4;

/// A code point of a text in normal form that keeps that form from being certain; nothing if none does.
///
/// A program with newer Unicode data may normalise a code point otherwise that is unassigned in ours.
/// Assigned ones keep their normal form for good, by Unicode's stability policy. See docs/internals/keys.md
/// for which unassigned ones can change a text, and why the others cannot.
[[nodiscard]] std::optional<std::int32_t> uncertain_code_point(std::string_view normalised);

/// The version of Unicode whose data this process has: "15.0.0".
[[nodiscard]] std::string_view unicode_version() noexcept;

}  // namespace holdfast::core
