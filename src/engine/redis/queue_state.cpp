#include "engine/redis/queue_state.hpp"

#include <cstdint>
#include <limits>

#include "core/wall_time.hpp"

namespace holdfast::redis {
namespace {

constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::min();
/// The bytes before the limit key, or the worker without one.
constexpr std::size_t fixed_bytes = 98;
/// The limit, and the length of the key.
constexpr std::size_t limit_bytes = 6;
constexpr unsigned has_lock_key = 1, has_limit_key = 2;

void pack(std::string& bytes, std::uint64_t number, unsigned size) {
  for (unsigned i = size; i-- > 0;) bytes += static_cast<char>(number >> (8 * i) & 0xFFU);
}

/// Reads numbers from the front of a text that is long enough.
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

}  // namespace

std::string packed_terms(const QueueTerms& terms, bool has_own_lock_key) {
  std::string bytes;
  bytes.reserve(47 + (terms.limit_key.empty() ? 0 : limit_bytes + terms.limit_key.size()));
  pack(bytes, static_cast<std::uint64_t>(terms.priority), 2);
  pack(bytes, terms.max_attempts, 4);
  pack(bytes, static_cast<std::uint64_t>(terms.attempt_limit.count()), 8);
  pack(bytes, static_cast<std::uint64_t>(terms.max_age.count()), 8);
  pack(bytes, static_cast<std::uint64_t>(terms.retention.count()), 8);
  pack(bytes, static_cast<std::uint64_t>(terms.not_before ? core::to_ms(*terms.not_before) : no_time), 8);
  const bool is_limited = !terms.limit_key.empty();
  pack(bytes, (has_own_lock_key ? has_lock_key : 0) | (is_limited ? has_limit_key : 0), 1);
  pack(bytes, static_cast<std::uint64_t>(terms.failed_retention.count()), 8);
  if (is_limited) {
    pack(bytes, terms.limit, 4);
    pack(bytes, terms.limit_key.size(), 2);
    bytes += terms.limit_key;
  }
  return bytes;
}

std::optional<QueueState> queue_state_of(std::string_view field) {
  if (field.size() < fixed_bytes) return std::nullopt;
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
    if (bytes.rest().size() < limit_bytes) return std::nullopt;
    state.terms.limit = static_cast<std::uint32_t>(bytes.next(4));
    const auto size = bytes.next(2);
    if (bytes.rest().size() < size) return std::nullopt;
    state.terms.limit_key = std::string(bytes.next_text(size));
  }
  state.worker = std::string(bytes.rest());
  return state;
}

}  // namespace holdfast::redis
