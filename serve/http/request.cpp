#include "serve/http/request.hpp"

namespace holdfast::serve {
namespace {

int hex_digit(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      result += ' ';
    } else if (text[i] != '%') {
      result += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      result += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return result;
}

}  // namespace

std::optional<std::vector<std::pair<std::string, std::string>>> parse_parameters(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!text.empty()) {
    const auto end = text.find('&');
    const auto one = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (one.empty()) continue;
    const auto equals = one.find('=');
    auto name = unescaped(one.substr(0, equals));
    auto value = unescaped(equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1));
    if (!name || !value) return std::nullopt;
    parameters.emplace_back(*std::move(name), *std::move(value));
  }
  return parameters;
}

std::optional<std::string_view> cookie_in(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const auto end = header.find(';');
    auto one = header.substr(0, end);
    header = end == std::string_view::npos ? std::string_view() : header.substr(end + 1);
    while (one.starts_with(' ')) one.remove_prefix(1);
    const auto equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name) return one.substr(equals + 1);
  }
  return std::nullopt;
}

}  // namespace holdfast::serve
