#include "output.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bidi.hpp"
#include "json_text.hpp"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

/// What is not UTF-8 in it is replaced. Only for objects of our own making: see json_text.hpp.
std::string dump(const ordered_json& object) {
  return on_one_line(object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

/// The length of the well-formed UTF-8 sequence at the front that is fit to print; 0 if there is none.
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
  return bidi_control(text) > 0 ? 0 : length;
}

void write_line(std::string line) noexcept {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto n = write(STDERR_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_line(const std::string& line) {
  std::cout << line << '\n' << std::flush;
  if (!std::cout) throw Error(ErrorCode::Internal, "cannot write the result to standard output");
}

/// Terminal columns, near enough: one for each code point.
std::size_t width(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// `widths`: of the columns so far; what is wider makes them so.
void print_aligned(const std::vector<std::vector<std::string>>& rows, std::vector<std::size_t>& widths) {
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - width(row[i]) + 2, ' ');
    }
    print_line(line);
  }
}

}  // namespace

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

void complain(std::string_view message) noexcept {
  write_line("holdfast: " + std::string(message));
}

void complain_json(std::string_view code, std::string_view message) noexcept {
  write_line(dump({{"error", {{"code", code}, {"message", message}}}}));
}

void tell_json(const ordered_json& object) noexcept {
  write_line(dump(object));
}

void print_json(const ordered_json& object) {
  print_line(dump(object));
}

void print_json_text(const Json& value) {
  print_line(on_one_line(value.str()));
}

void print_json_for_people(const Json& value) {
  print_line(indented(value.str()));
}

void print_text(std::string_view text) {
  print_line(printable(text));
}

void print_fields(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::size_t widest = 0;
  for (const auto& [name, value] : fields) widest = std::max(widest, name.size());
  for (const auto& [name, value] : fields) {
    print_line(name + std::string(widest - name.size() + 2, ' ') + printable(value));
  }
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  print_aligned(rows, widths);
}

LongTable::LongTable(std::vector<std::string> head) {
  rows_.push_back(std::move(head));
}

void LongTable::add(std::vector<std::string> row) {
  constexpr std::size_t rows_at_once = 200;
  empty_ = false;
  rows_.push_back(std::move(row));
  if (rows_.size() >= rows_at_once) print();
}

bool LongTable::finish() {
  if (!empty_) print();
  return !empty_;
}

void LongTable::print() {
  print_aligned(rows_, widths_);
  rows_.clear();
}

ordered_json to_json(const LockInfo& info) {
  ordered_json object{{"keyHash", info.key_hash},
                      {"lockIdHash", info.lock_id_hash},
                      {"expiresAtMs", info.expires_at_ms},
                      {"acquiredAtMs", info.acquired_at_ms},
                      {"fence", info.fence.to_string()}};
  if (info.fence_digits != LockInfo{}.fence_digits) object["fenceDigits"] = info.fence_digits;
  return object;
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

std::chrono::milliseconds time_until(std::int64_t ms_since_epoch) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return std::max(std::chrono::milliseconds(ms_since_epoch) - now.time_since_epoch(),
                  std::chrono::milliseconds::zero());
}

}  // namespace holdfast::cli
