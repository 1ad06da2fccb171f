#pragma once

#include <cstdint>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::core {

/// Whether the text is ASCII: then it is in normal form already, in every version of Unicode.
[[nodiscard]] bool is_ascii(std::string_view text) noexcept;

/// The text in Unicode's normal form C, in time proportional to its length. InvalidArgument if it is not
/// valid UTF-8.
[[nodiscard]] Result<std::string> nfc(std::string_view text);

/// Normalisation shrinks a text, in bytes, at most by this factor. So a text of more than
/// `nfc_shrinks_at_most * limit` bytes can be rejected before it is normalised.
///
/// A text and its normal form decompose to the same code points, in some order. A text can be longer for two
/// reasons: a code point is written as a longer equivalent (K as the KELVIN SIGN: 3 bytes for 1), or as parts
/// that are longer than the composed one (a Hangul syllable: 9 bytes for 3). Both can add up. The worst is
/// U+0390, 2 bytes, written as U+1FBE U+0308 U+0301, 7 bytes. NormalForm.ShrinksByNoMoreThanItsBound computes
/// it from utf8proc's data.
inline constexpr std::size_t nfc_shrinks_at_most = 4;

/// A code point because of which another version of Unicode may normalise this text differently; empty if
/// there is none. The text must be in normal form.
///
/// A program with newer Unicode data may normalise a code point differently that is unassigned in ours.
/// Assigned ones keep their normal form for good, by Unicode's stability policy. See docs/internals/keys.md
/// for which unassigned ones can change a text, and why the others cannot.
[[nodiscard]] std::optional<std::int32_t> uncertain_code_point(std::string_view normalised);

/// The version of this process's Unicode data: "15.0.0".
[[nodiscard]] std::string_view unicode_version() noexcept;

}  // namespace holdfast::core
