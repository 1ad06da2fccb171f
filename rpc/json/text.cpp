#include "rpc/json/text.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace holdfast::rpc {
namespace {

/// Beyond it the indentation would outgrow the text.
constexpr std::size_t max_indented_depth = 64;
constexpr std::size_t spaces_per_level = 2;

bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void append_unicode_escape(std::string& out, unsigned code_point) {
  std::array<char, 7> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", code_point);
  out += escape.data();
}

void append_escaped(std::string& out, std::string_view json_string) {
  const auto byte = [&](std::size_t i) {
    return i < json_string.size() ? static_cast<unsigned char>(json_string[i]) : 0U;
  };
  for (std::size_t i = 0; i < json_string.size(); ++i) {
    const auto bidi = bidi_control(json_string.substr(i));
    if (byte(i) == 0x7F) {
      append_unicode_escape(out, 0x7F);
    } else if (byte(i) == 0xC2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xA0) {
      append_unicode_escape(out, byte(++i));
    } else if (bidi > 0) {
      append_unicode_escape(out,
                            bidi == 2 ? 0x061C : 0x2000 + ((byte(i + 1) & 0x3F) << 6) + (byte(i + 2) & 0x3F));
      i += bidi - 1;
    } else {
      out += json_string[i];
    }
  }
}

/// Passes strings on whole and escaped, and everything else but space to `punctuation`, a character at a
/// time.
template <class Punctuation>
std::string laid_out(std::string_view json, const Punctuation& punctuation) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      const auto end = end_of_string(json, at);
      append_escaped(out, json.substr(at, end - at));
      at = end;
      continue;
    }
    if (!is_space(json[at])) punctuation(out, json[at]);
    ++at;
  }
  return out;
}

}  // namespace

std::size_t end_of_string(std::string_view json, std::size_t start) noexcept {
  std::size_t at = start + 1;
  while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
  return at + 1;
}

std::size_t bidi_control(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;  // U+061C
  if (byte(0) != 0xE2) return 0;
  const auto last = byte(2);
  const bool marks = byte(1) == 0x80 && (last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE));
  const bool isolates = byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;
  return marks || isolates ? 3 : 0;  // U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069
}

Json dump(const nlohmann::ordered_json& object) {
  return Json::unchecked(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void JsonObject::add(std::string_view name, std::string_view json_value) {
  if (text_.size() > 1) text_ += ',';
  text_ += Json::string(name).value_or_throw().str();
  text_ += ':';
  text_ += json_value;
}

std::string array_of(const std::vector<std::string>& elements) {
  std::string array = "[";
  for (const auto& element : elements) {
    if (array.size() > 1) array += ',';
    array += element;
  }
  return array + "]";
}

std::string on_one_line(std::string_view json) {
  return laid_out(json, [](std::string& out, char c) { out += c; });
}

std::string indented(std::string_view json) {
  std::size_t depth = 0;
  const auto new_line = [&depth](std::string& out) {
    if (depth > max_indented_depth) return;
    out += '\n';
    out.append(depth * spaces_per_level, ' ');
  };
  return laid_out(on_one_line(json), [&](std::string& out, char c) {
    const bool closes = c == '}' || c == ']';
    // The line after an opening one is begun at once; in an empty container that was for nothing.
    if (closes) {
      const bool deep = depth > max_indented_depth;
      --depth;
      const auto last = out.find_last_not_of(" \n");
      if (out[last] == (c == '}' ? '{' : '[')) {
        out.resize(last + 1);
      } else if (!deep) {
        new_line(out);
      }
    }
    out += c;
    if (c == '{' || c == '[') {
      ++depth;
      new_line(out);
    } else if (c == ',') {
      new_line(out);
    } else if (c == ':') {
      out += ' ';
    }
  });
}

}  // namespace holdfast::rpc
