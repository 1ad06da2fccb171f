#include "engine/redis/queue_state.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "core/wall_time.hpp"

namespace holdfast::redis {
namespace {

constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::min();
/// The characters before the limit key, or what follows without one; of a state of bytes, and of one of text.
constexpr std::size_t binary_fixed = 98, fixed = 158;
/// The limit, and the length of the key.
constexpr std::size_t binary_limit = 6, limit_digits = 10, size_digits = 5;
constexpr unsigned has_lock_key = 1, has_limit_key = 2;

/// Adds a number with leading zeros.
void add(std::string& text, std::int64_t number, std::size_t digits) {
  auto plain = std::to_string(number);
  if (number < 0) {
    text += '-';
    plain.erase(0, 1);
    --digits;
  }
  text.append(digits - std::min(digits, plain.size()), '0').append(plain);
}

/// Reads the parts of a text from its front; `valid` is false after one that is missing or no number.
class StateText {
 public:
  explicit StateText(std::string_view text) : text_(text) {}

  bool valid = true;

  std::string_view text(std::size_t size) {
    valid = valid && size <= text_.size();
    const auto part = text_.substr(0, size);
    text_.remove_prefix(part.size());
    return part;
  }
  std::int64_t number(std::size_t size) { return parsed(text(size)); }
  std::int64_t number_before_space() {
    const auto space = text_.find(' ');
    valid = valid && space != std::string_view::npos;
    if (!valid) return 0;
    const auto number = parsed(text(space));
    text(1);
    return number;
  }
  WallTime time(std::size_t size) { return core::from_ms(number(size)); }
  std::chrono::milliseconds length_before_space() { return std::chrono::milliseconds(number_before_space()); }
  [[nodiscard]] std::string_view rest() const { return text_; }

 private:
  std::int64_t parsed(std::string_view digits) {
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    // A length without a limit was rounded up by a script, as it became text.
    if (error == std::errc::result_out_of_range) return std::numeric_limits<std::int64_t>::max();
    valid = valid && error == std::errc() && end == digits.data() + digits.size();
    return number;
  }

  std::string_view text_;
};

/// Reads numbers from the front of bytes that are long enough.
class Unpacking {
 public:
  explicit Unpacking(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t next(unsigned size) {
    std::uint64_t number = 0;
    for (unsigned i = 0; i < size; ++i) number = number << 8U | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(size);
    return number;
  }
  WallTime next_time() { return core::from_ms(static_cast<std::int64_t>(next(7))); }
  std::int64_t next_signed() { return static_cast<std::int64_t>(next(8)); }
  std::chrono::milliseconds next_length() { return std::chrono::milliseconds(next_signed()); }
  std::string_view next_text(std::size_t size) {
    const auto text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  [[nodiscard]] std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

std::optional<QueueState> state_of_bytes(std::string_view field) {
  if (field.size() < binary_fixed) return std::nullopt;
  Unpacking bytes(field);
  const auto place = bytes.next(1);
  if (place > static_cast<std::uint64_t>(QueuePlace::dead)) return std::nullopt;
  QueueState state;
  state.place = static_cast<QueuePlace>(place);
  state.attempts = static_cast<std::uint32_t>(bytes.next(4));
  state.deaths = static_cast<std::uint32_t>(bytes.next(4));
  state.due_at = bytes.next_time();
  state.fails_at = bytes.next_time();
  bytes.next(7);
  state.claimed_at = bytes.next_time();
  state.lease_expires_at = bytes.next_time();
  bytes.next(7);
  state.terms.priority = static_cast<std::int16_t>(bytes.next(2));
  state.terms.max_attempts = static_cast<std::uint32_t>(bytes.next(4));
  state.terms.attempt_limit = bytes.next_length();
  state.terms.max_age = bytes.next_length();
  state.terms.retention = bytes.next_length();
  if (const auto ms = bytes.next_signed(); ms != no_time) state.terms.not_before = core::from_ms(ms);
  const auto flags = bytes.next(1);
  state.terms.failed_retention = bytes.next_length();
  if ((flags & has_limit_key) != 0) {
    if (bytes.rest().size() < binary_limit) return std::nullopt;
    state.terms.limit = static_cast<std::uint32_t>(bytes.next(4));
    const auto size = bytes.next(2);
    if (bytes.rest().size() < size) return std::nullopt;
    state.terms.limit_key = std::string(bytes.next_text(size));
  }
  state.worker = std::string(bytes.rest());
  return state;
}

}  // namespace

std::string terms_text(const QueueTerms& terms, bool has_own_lock_key) {
  const bool is_limited = !terms.limit_key.empty();
  std::string limited, lengths;
  if (is_limited) {
    add(limited, terms.limit, limit_digits);
    add(limited, static_cast<std::int64_t>(terms.limit_key.size()), size_digits);
    limited += terms.limit_key;
  }
  for (const auto number :
       {terms.max_age.count(), terms.retention.count(),
        terms.not_before ? core::to_ms(*terms.not_before) : no_time, terms.failed_retention.count()}) {
    lengths.append(std::to_string(number)).append(" ");
  }
  std::string text(terms.priority < 0 ? "-" : "+");
  add(text, std::abs(int{terms.priority}), 5);
  add(text, terms.max_attempts, 10);
  add(text, terms.attempt_limit.count(), 20);
  add(text, (has_own_lock_key ? has_lock_key : 0) | (is_limited ? has_limit_key : 0), 1);
  add(text, static_cast<std::int64_t>(fixed + 1 + limited.size() + lengths.size()), 4);
  return text + limited + lengths;
}

std::optional<QueueState> queue_state_of(std::string_view field) {
  if (!field.empty() && field[0] < '0') return state_of_bytes(field);
  StateText parts(field);
  const auto place = parts.number(1);
  if (!parts.valid || place > static_cast<std::int64_t>(QueuePlace::dead)) return std::nullopt;
  QueueState state;
  state.place = static_cast<QueuePlace>(place);
  state.deaths = static_cast<std::uint32_t>(parts.number(10));
  state.due_at = parts.time(16);
  parts.text(16);
  state.claimed_at = parts.time(16);
  state.lease_expires_at = parts.time(16);
  state.attempts = static_cast<std::uint32_t>(parts.number(10));
  state.fails_at = parts.time(16);
  parts.text(16);
  state.terms.priority = static_cast<std::int16_t>(parts.number(6));
  state.terms.max_attempts = static_cast<std::uint32_t>(parts.number(10));
  state.terms.attempt_limit = std::chrono::milliseconds(parts.number(20));
  const auto flags = static_cast<unsigned>(parts.number(1));
  parts.text(4);
  if ((flags & has_limit_key) != 0) {
    state.terms.limit = static_cast<std::uint32_t>(parts.number(limit_digits));
    state.terms.limit_key = std::string(parts.text(static_cast<std::size_t>(parts.number(size_digits))));
  }
  state.terms.max_age = parts.length_before_space();
  state.terms.retention = parts.length_before_space();
  if (const auto ms = parts.number_before_space(); ms != no_time) state.terms.not_before = core::from_ms(ms);
  state.terms.failed_retention = parts.length_before_space();
  if (!parts.valid) return std::nullopt;
  state.worker = std::string(parts.rest());
  return state;
}

}  // namespace holdfast::redis
