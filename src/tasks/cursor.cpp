#include "tasks/cursor.hpp"

#include <charconv>

#include "core/base64url.hpp"
#include "core/percent.hpp"
#include "core/sha256.hpp"

namespace holdfast::tasks {
namespace {

/// Tells a cursor of ours from anything else, not an honest caller from a dishonest one: all it could gain is
/// another page of its own tasks.
constexpr std::size_t check_bytes = 6;

}  // namespace

Result<std::string> cursor_at(const ListPosition& position, std::string_view stored_owner) {
  const auto place = std::to_string(position.created_at_ms) + '.' + core::percent_encoded(position.task);
  const auto digest = core::sha256(place + ':' + std::string(stored_owner));
  if (!digest) return digest.error();
  return core::base64url(std::span(*digest).first(check_bytes)) + '.' + place;
}

Result<ListPosition> position_of(std::string_view cursor, std::string_view stored_owner) {
  const Error bad(ErrorCode::BadCursor,
                  "the cursor is not from a page of this owner's list; start without one");
  const auto first = cursor.find('.');
  const auto second = first == std::string_view::npos ? first : cursor.find('.', first + 1);
  if (second == std::string_view::npos) return bad;
  ListPosition position;
  const auto number = cursor.substr(first + 1, second - first - 1);
  const auto [end, failed] =
      std::from_chars(number.data(), number.data() + number.size(), position.created_at_ms);
  auto task = core::percent_decoded(cursor.substr(second + 1));
  if (failed != std::errc() || end != number.data() + number.size() || !task) return bad;
  position.task = *std::move(task);
  const auto good = cursor_at(position, stored_owner);
  if (!good) return good.error();
  if (*good != cursor) return bad;
  return position;
}

}  // namespace holdfast::tasks
