#include "core/rfc3339.hpp"

#include <chrono>
#include <cstdlib>

namespace holdfast::core {
namespace {

using namespace std::chrono;

/// Reads a text from its beginning. After the first mismatch it stays failed.
class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : rest_(text) {}

  int digits(std::size_t count) noexcept {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!next_is_digit()) {
        failed_ = true;
        return 0;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  bool accept(std::string_view any_of) noexcept {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(std::string_view any_of) noexcept { failed_ = !accept(any_of) || failed_; }
  [[nodiscard]] bool next_is_digit() const noexcept {
    return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

/// The digits after the point: at least one.
int fraction_ms(Scanner& scanner) noexcept {
  int ms = scanner.digits(1) * 100;
  for (int worth = 10; scanner.next_is_digit(); worth /= 10) ms += scanner.digits(1) * worth;
  return ms;
}

/// `Z`, or `+hh:mm`.
std::optional<minutes> offset(Scanner& scanner) noexcept {
  if (scanner.accept("Zz")) return minutes(0);
  const bool west = scanner.accept("-");
  if (!west) scanner.expect("+");
  const int h = scanner.digits(2);
  scanner.expect(":");
  const int m = scanner.digits(2);
  if (scanner.failed() || h > 23 || m > 59) return std::nullopt;
  return (west ? -1 : 1) * (hours(h) + minutes(m));
}

}  // namespace

std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept {
  Scanner scanner(text);
  const int y = scanner.digits(4);
  scanner.expect("-");
  const int mon = scanner.digits(2);
  scanner.expect("-");
  const int d = scanner.digits(2);
  scanner.expect("Tt ");
  const int h = scanner.digits(2);
  scanner.expect(":");
  const int min = scanner.digits(2);
  scanner.expect(":");
  const int s = scanner.digits(2);
  const int ms = scanner.accept(".") ? fraction_ms(scanner) : 0;
  const auto east = offset(scanner);
  if (scanner.failed() || !scanner.at_end() || !east) return std::nullopt;
  const year_month_day date{year(y), month(static_cast<unsigned>(mon)), day(static_cast<unsigned>(d))};
  // 60: a leap second, which counts as the first of the next minute.
  if (!date.ok() || h > 23 || min > 59 || s > 60) return std::nullopt;
  const auto at = sys_days(date) + hours(h) + minutes(min) + seconds(s) + milliseconds(ms) - *east;
  return time_point_cast<milliseconds>(at);
}

std::string format_rfc3339(WallTime at) {
  const auto midnight = floor<days>(at);
  const year_month_day date(midnight);
  const hh_mm_ss time(at - midnight);
  std::string text;
  text.reserve(24);
  // Not snprintf: each write of a task formats some times.
  const auto append = [&text](auto number, std::size_t width, char end) {
    const auto digits = std::to_string(number);
    text.append(width > digits.size() ? width - digits.size() : 0, '0').append(digits) += end;
  };
  const int year = static_cast<int>(date.year());
  if (year < 0) text += '-';
  append(std::abs(year), year < 0 ? 3 : 4, '-');
  append(static_cast<unsigned>(date.month()), 2, '-');
  append(static_cast<unsigned>(date.day()), 2, 'T');
  append(time.hours().count(), 2, ':');
  append(time.minutes().count(), 2, ':');
  append(time.seconds().count(), 2, '.');
  append(time.subseconds().count(), 3, 'Z');
  return text;
}

}  // namespace holdfast::core
