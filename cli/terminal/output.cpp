#include "terminal/output.hpp"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <holdfast/error.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"

namespace holdfast::cli {

using std::chrono::milliseconds;

WallTime wall_clock() {
  return std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
}

std::size_t width(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
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

std::string iso_time(WallTime time) {
  const auto ms = time.time_since_epoch().count();
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 80> all{};
  std::snprintf(all.data(), all.size(), "%s.%03dZ", date.data(), static_cast<int>(ms % 1000));
  return all.data();
}

milliseconds time_until(WallTime time) {
  return std::max(time - wall_clock(), milliseconds::zero());
}

milliseconds time_since(WallTime time) {
  return std::max(wall_clock() - time, milliseconds::zero());
}

std::string expiry(WallTime time) {
  return iso_time(time) + " (in " + describe(time_until(time)) + ")";
}

namespace {

using nlohmann::ordered_json;

std::string one_line(const ordered_json& object) {
  return rpc::on_one_line(rpc::dump(object).str());
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

/// `widths`: of the columns so far; wider cells widen them.
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

void complain(std::string_view message, LogDetails details) noexcept {
  if (!logs_json()) return write_line("holdfast: " + std::string(message));
  constexpr std::string_view warning = "warning: ";
  if (message.starts_with(warning)) {
    message.remove_prefix(warning.size());
    if (details.event == LogDetails{}.event) details.event = "warning";
    details.level = std::max(details.level, LogSeverity::warning);
  }
  log_event(details, message);
}

void complain(bool as_json, std::string_view code, std::string_view message, std::string_view holder,
              LogDetails details) noexcept {
  if (logs_json()) {
    details.fields.push_back({.name = "code", .value = std::string(code)});
    if (!holder.empty()) details.fields.push_back({.name = "holder", .value = std::string(holder)});
    return log_event(details, message);
  }
  if (!as_json) return complain(message);
  ordered_json error{{"code", code}, {"message", message}};
  if (!holder.empty()) error["holder"] = holder;
  write_json_line({{"error", std::move(error)}});
}

void write_json_line(const ordered_json& object) noexcept {
  write_line(one_line(object));
}

void print_json(const ordered_json& object) {
  print_line(one_line(object));
}

void print_json_text(const Json& value) {
  print_line(rpc::on_one_line(value.str()));
}

void print_indented(const Json& value) {
  print_line(rpc::indented(value.str()));
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

void print_json_or_complain(bool as_json, const ordered_json& object, std::string_view message) {
  if (as_json) {
    print_json(object);
  } else {
    complain(message);
  }
}

void LongTable::add(std::vector<std::string> row) {
  constexpr std::size_t rows_at_once = 200;
  empty_ = false;
  rows_.push_back(std::move(row));
  if (rows_.size() >= rows_at_once) print();
}

void LongTable::finish() {
  if (!empty_) print();
}

void LongTable::print() {
  print_aligned(rows_, widths_);
  rows_.clear();
}

bool can_ask() noexcept {
  return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

bool confirm(std::string_view question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return strcasecmp(answer.c_str(), "y") == 0 || strcasecmp(answer.c_str(), "yes") == 0;
}

}  // namespace holdfast::cli
