#include "duration.hpp"

#include <cstdint>
#include <holdfast/duration.hpp>

#include "output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void refuse(std::string_view option, std::string_view text, const std::string& why) {
  throw UsageError(std::string(option) + ": " + quote(text) + " " + why);
}

}  // namespace

milliseconds parse_duration(std::string_view option, std::string_view text) {
  const auto length = holdfast::parse_duration(text);
  if (!length) refuse(option, text, length.error().message());
  return *length;
}

milliseconds parse_positive_duration(std::string_view option, std::string_view text) {
  const auto length = parse_duration(option, text);
  if (length == milliseconds::zero()) refuse(option, text, "must be more than zero");
  return length;
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

}  // namespace holdfast::cli
