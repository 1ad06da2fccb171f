#include "rpc/json/text.hpp"

#include <array>
#include <cstdio>
#include <holdfast/printable.hpp>
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
  std::array<char, 16> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", code_point & 0xFFFFU);
  out += escape.data();
}

void append_escaped(std::string& out, std::string_view json_string) {
  while (!json_string.empty()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(json_string[i]); };
    const auto bytes = control_character_bytes(json_string);
    if (bytes == 0) {
      out += json_string.front();
    } else {
      append_unicode_escape(
          out, bytes == 1   ? byte(0)
               : bytes == 2 ? ((byte(0) & 0x1FU) << 6U) + (byte(1) & 0x3FU)
                            : ((byte(0) & 0x0FU) << 12U) + ((byte(1) & 0x3FU) << 6U) + (byte(2) & 0x3FU));
    }
    json_string.remove_prefix(bytes == 0 ? 1 : bytes);
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
