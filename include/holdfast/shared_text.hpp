#pragma once

/// @file
/// SharedText: an immutable text that is cheap to copy.

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace holdfast {

/// An immutable text. Copies share its characters, so that a request, the lock it acquires and the guard that
/// holds it carry one key. Empty by default and after a move.
///
/// Thread-safe as a std::shared_ptr: different objects may be used by different threads, also if they share
/// their characters.
class SharedText {
 public:
  /// An empty text. No allocation.
  SharedText() noexcept = default;
  /// Takes over a text, or copies one. One allocation, or two for a long text; none if it is empty.
  template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view>
  SharedText(Text&& text) : SharedText(Owned{std::string(std::forward<Text>(text))}) {}

  /// Returns the text. Valid while an object that shares it lives.
  [[nodiscard]] const std::string& str() const noexcept { return text_ ? *text_ : no_text(); }
  /// Returns the text, as str() does.
  operator const std::string&() const noexcept { return str(); }
  /// Returns true if the text has no characters.
  [[nodiscard]] bool empty() const noexcept { return !text_; }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t size() const noexcept { return str().size(); }

  /// Compares the characters.
  friend bool operator==(const SharedText& one, const SharedText& other) noexcept {
    return one.text_ == other.text_ || one.str() == other.str();
  }
  /// Compares the characters.
  template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view>
  friend bool operator==(const SharedText& one, const Text& other) noexcept {
    return one.str() == std::string_view(other);
  }

 private:
  struct Owned {
    std::string text;
  };
  explicit SharedText(Owned owned)
      : text_(owned.text.empty() ? nullptr : std::make_shared<const std::string>(std::move(owned.text))) {}

  static const std::string& no_text() noexcept {
    static const std::string empty;
    return empty;
  }

  std::shared_ptr<const std::string> text_;  ///< null if empty
};

}  // namespace holdfast
