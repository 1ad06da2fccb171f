#include "top/keys.hpp"

#include <array>
#include <holdfast/printable.hpp>
#include <utility>

namespace holdfast::cli::top {
namespace {

using Name = Key::Name;

constexpr std::size_t longest_sequence = 32;

std::optional<Name> named_by_letter(char letter) noexcept {
  switch (letter) {
    case 'A':
      return Name::up;
    case 'B':
      return Name::down;
    case 'C':
      return Name::right;
    case 'D':
      return Name::left;
    case 'H':
      return Name::home;
    case 'F':
      return Name::end;
    case 'Z':
      return Name::back_tab;
    default:
      return std::nullopt;
  }
}

std::optional<Name> named_by_number(std::string_view number) noexcept {
  constexpr std::array<std::pair<std::string_view, Name>, 6> numbers{{{"1", Name::home},
                                                                      {"4", Name::end},
                                                                      {"5", Name::page_up},
                                                                      {"6", Name::page_down},
                                                                      {"7", Name::home},
                                                                      {"8", Name::end}}};
  for (const auto& [text, name] : numbers) {
    if (text == number) return name;
  }
  return std::nullopt;
}

std::optional<Name> named_by_control(char control) noexcept {
  switch (control) {
    case '\r':
    case '\n':
      return Name::enter;
    case '\t':
      return Name::tab;
    case '\x7f':
    case '\b':
      return Name::backspace;
    case '\x15':
      return Name::kill_line;
    case '\f':
      return Name::redraw;
    default:
      return std::nullopt;
  }
}

std::size_t length_of_character(unsigned char first) noexcept {
  if (first < 0xC2 || first > 0xF4) return 1;  // ASCII, or not the begin of a character
  if (first >= 0xF0) return 4;
  if (first >= 0xE0) return 3;
  return 2;
}

}  // namespace

std::vector<Key> KeyDecoder::take(std::string_view bytes) {
  buffer_ += bytes;
  std::vector<Key> keys;
  while (!buffer_.empty() && take_one(keys)) {
  }
  return keys;
}

std::vector<Key> KeyDecoder::flush() {
  std::vector<Key> keys;
  if (buffer_.starts_with('\x1b')) {
    keys.push_back({.name = Name::escape});
    buffer_.erase(0, 1);
    // An escape and then `[`: two keys.
    while (!buffer_.empty() && take_one(keys)) {
    }
  }
  buffer_.clear();
  return keys;
}

bool KeyDecoder::take_one(std::vector<Key>& keys) {
  const auto add = [&](std::optional<Name> name, std::size_t bytes) {
    if (name) keys.push_back({.name = *name});
    buffer_.erase(0, bytes);
    return true;
  };
  const char first = buffer_.front();
  if (first != '\x1b') {
    if (static_cast<unsigned char>(first) < 0x20 || first == '\x7f') return add(named_by_control(first), 1);
    const auto bytes = length_of_character(static_cast<unsigned char>(first));
    if (buffer_.size() < bytes) return false;
    auto text = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    // What is not a character, or would disturb the terminal when it is shown, was not typed by a person.
    if (printable(text) == text) keys.push_back({.name = Name::text, .text = std::move(text)});
    return true;
  }
  if (buffer_.size() < 2) return false;
  if (buffer_[1] == '\x1b') return add(Name::escape, 1);
  if (buffer_[1] != '[' && buffer_[1] != 'O') return add(std::nullopt, 2);  // Alt and a key
  const auto end = buffer_.find_first_not_of("0123456789;<?", 2);
  if (end == std::string::npos)
    return buffer_.size() > longest_sequence ? add(std::nullopt, buffer_.size()) : false;
  const auto number = std::string_view(buffer_).substr(2, end - 2);
  if (buffer_[end] == '~') return add(named_by_number(number.substr(0, number.find(';'))), end + 1);
  return add(named_by_letter(buffer_[end]), end + 1);
}

}  // namespace holdfast::cli::top
