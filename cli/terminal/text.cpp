#include "terminal/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "rpc/json/text.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

/// The length of the well-formed, printable UTF-8 sequence at the front; 0 if there is none.
std::size_t printable_prefix(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const std::size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xC2 && byte(1) < 0xA0) return 0;  // C1 controls: some terminals obey them
  return rpc::bidi_control(text) > 0 ? 0 : length;
}

milliseconds wall_clock() {
  return std::chrono::floor<milliseconds>(std::chrono::system_clock::now()).time_since_epoch();
}

}  // namespace

std::size_t width(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (const auto n = printable_prefix(text); n > 0) {
      out += text.substr(0, n);
      text.remove_prefix(n);
      continue;
    }
    std::array<char, 5> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(text[0])));
    out += hex.data();
    text.remove_prefix(1);
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (width(text) <= columns) return std::string(text);
  constexpr std::string_view rest = "...";
  std::size_t end = 0;
  for (std::size_t left = columns - rest.size(); left > 0 || (text[end] & 0xC0) == 0x80; ++end) {
    if ((text[end] & 0xC0) != 0x80) --left;
  }
  return std::string(text.substr(0, end)).append(rest);
}

std::string quote(std::string_view text) {
  return '"' + printable(text) + '"';
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  const bool fit_to_print = printable(text) == text;
  std::string out = fit_to_print ? "'" : "$'";
  for (const char c : text) {
    if (c == '\'') {
      out += fit_to_print ? "'\\''" : "\\'";
    } else if (c == '\\' && !fit_to_print) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return printable(out) + "'";
}

std::string describe(milliseconds length) {
  const auto ms = length.count();
  if (ms < 1000) return std::to_string(ms) + " ms";
  const auto with_tenths = [](std::int64_t tenths, const char* unit) {
    auto text = std::to_string(tenths / 10);
    if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
    return text + " " + unit;
  };
  if (ms < 120'000) return with_tenths(ms / 100, "s");
  if (ms < 7'200'000) return with_tenths(ms / 6'000, "min");
  if (ms < 172'800'000) return with_tenths(ms / 360'000, "h");
  return with_tenths(ms / 8'640'000, "d");
}

std::string iso_time(std::int64_t ms_since_epoch) {
  const std::time_t seconds = ms_since_epoch / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 80> all{};
  std::snprintf(all.data(), all.size(), "%s.%03dZ", date.data(), static_cast<int>(ms_since_epoch % 1000));
  return all.data();
}

milliseconds time_until(std::int64_t ms_since_epoch) {
  return std::max(milliseconds(ms_since_epoch) - wall_clock(), milliseconds::zero());
}

milliseconds time_since(std::int64_t ms_since_epoch) {
  return std::max(wall_clock() - milliseconds(ms_since_epoch), milliseconds::zero());
}

std::string expiry(std::int64_t ms_since_epoch) {
  return iso_time(ms_since_epoch) + " (in " + describe(time_until(ms_since_epoch)) + ")";
}

}  // namespace holdfast::cli
