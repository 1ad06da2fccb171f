#include "serve/content/json_text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <holdfast/json.hpp>
#include <holdfast/printable.hpp>

namespace holdfast::serve {

void JsonText::before_value() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonText& JsonText::begin_object() {
  before_value();
  text_ += '{';
  needs_comma_ = false;
  return *this;
}

JsonText& JsonText::end_object() {
  text_ += '}';
  needs_comma_ = true;
  return *this;
}

JsonText& JsonText::begin_array() {
  before_value();
  text_ += '[';
  needs_comma_ = false;
  return *this;
}

JsonText& JsonText::end_array() {
  text_ += ']';
  needs_comma_ = true;
  return *this;
}

JsonText& JsonText::name(std::string_view name) {
  before_value();
  text_.append("\"").append(name).append("\":");
  needs_comma_ = false;
  return *this;
}

JsonText& JsonText::text(std::string_view value) {
  before_value();
  if (const auto json = Json::string(value)) {
    text_ += json->str();
  } else {
    text_ += Json::string(printable(value)).value_or_throw().str();
  }
  return *this;
}

JsonText& JsonText::boolean(bool value) {
  before_value();
  text_ += value ? "true" : "false";
  return *this;
}

JsonText& JsonText::null() {
  before_value();
  text_ += "null";
  return *this;
}

JsonText& JsonText::fraction(double value) {
  before_value();
  constexpr long whole = 10'000;
  const auto parts = std::clamp(std::lround(value * static_cast<double>(whole)), 0L, whole);
  const auto digits = std::to_string(whole + parts % whole).substr(1);
  text_ += parts == whole ? "1" : "0." + digits;
  return *this;
}

JsonText& JsonText::time(WallTime value) {
  return number(std::chrono::duration_cast<std::chrono::milliseconds>(value.time_since_epoch()).count());
}

JsonText& JsonText::raw(std::string_view json) {
  before_value();
  text_ += json;
  return *this;
}

}  // namespace holdfast::serve
