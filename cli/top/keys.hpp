#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli::top {

/// A key that was pressed.
struct Key {
  enum class Name : std::uint8_t {
    text,  ///< `text` is the character
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    tab,
    back_tab,
    escape,
    backspace,
    kill_line,  ///< Ctrl-U
    redraw      ///< Ctrl-L
  };
  Name name = Name::text;
  std::string text = {};
  friend bool operator==(const Key&, const Key&) = default;
};

/// Turns the bytes that a terminal sends into keys; a pure machine. Sequences that it does not know are
/// dropped as a whole, so that their rest is not taken for keys.
class KeyDecoder {
 public:
  /// Returns the keys that are complete.
  [[nodiscard]] std::vector<Key> take(std::string_view bytes);
  /// Returns whether a sequence has begun: if no more bytes come within some ten milliseconds, call flush().
  [[nodiscard]] bool pending() const noexcept { return !buffer_.empty(); }
  /// An escape that nothing follows is the key of that name.
  [[nodiscard]] std::vector<Key> flush();

 private:
  /// The first key of the buffer; removes its bytes. Empty if it is not complete.
  bool take_one(std::vector<Key>& keys);
  std::string buffer_;
};

}  // namespace holdfast::cli::top
