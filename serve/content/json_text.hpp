#pragma once

#include <concepts>
#include <holdfast/clock.hpp>
#include <string>
#include <string_view>

namespace holdfast::serve {

/// Appends JSON objects and arrays to one text. Ten thousand rows are written several times a second for all
/// viewers together: a tree of values for each would be most of the work.
class JsonText {
 public:
  JsonText& begin_object();
  JsonText& end_object();
  JsonText& begin_array();
  JsonText& end_array();
  /// The name of the next value. Static text, written as it is.
  JsonText& name(std::string_view name);
  /// Any text: bytes that are not UTF-8 are shown as \\xNN.
  JsonText& text(std::string_view value);
  JsonText& boolean(bool value);
  JsonText& null();
  JsonText& number(std::integral auto value) {
    before_value();
    text_ += std::to_string(value);
    return *this;
  }
  /// From 0 to 1, with four digits.
  JsonText& fraction(double value);
  /// Milliseconds since the epoch.
  JsonText& time(WallTime value);
  /// Valid JSON.
  JsonText& raw(std::string_view json);

  [[nodiscard]] std::string& str() noexcept { return text_; }

 private:
  void before_value();
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace holdfast::serve
