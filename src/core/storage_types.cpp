#include <holdfast/storage_types.hpp>

#include "core/json_scanner.hpp"
#include "core/rfc3339.hpp"
#include "core/utf8.hpp"

namespace holdfast {
namespace {

struct Times {
  std::optional<WallTime> expires_at, created_at;
};

/// Reads a value; returns it as a time, empty if it is not one.
std::optional<WallTime> take_time(core::JsonScanner& scanner) {
  if (scanner.next() == core::JsonToken::string) return core::parse_rfc3339(scanner.text());
  scanner.finish_value();
  return std::nullopt;
}

/// `expiresAt` and `task.createdAt` of a record; none if it is not JSON. Of duplicate members the last
/// counts.
Times times_in(std::string_view record) {
  Times times;
  core::JsonScanner scanner(record);
  if (scanner.next() != core::JsonToken::object) return {};
  scanner.for_each_member([&] {
    const auto name = scanner.text();
    if (name == "expiresAt") {
      times.expires_at = take_time(scanner);
    } else if (name != "task") {
      scanner.take_value();
    } else {
      times.created_at.reset();
      if (scanner.next() != core::JsonToken::object) {
        scanner.finish_value();
        return;
      }
      scanner.for_each_member([&] {
        if (scanner.text() == "createdAt") {
          times.created_at = take_time(scanner);
        } else {
          scanner.take_value();
        }
      });
    }
  });
  return scanner.at_end() ? times : Times{};
}

Error not_utf8(const char* what) {
  return {ErrorCode::InvalidArgument, std::string(what) + " is not valid UTF-8"};
}

}  // namespace

Result<RecordKey> RecordKey::parse(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument, "invalid record key: must be owner:task, with a colon");
  }
  if (text.size() > max_bytes) {
    return Error(ErrorCode::InvalidArgument, "a record's key is " + std::to_string(text.size()) +
                                                 " bytes long; at most " + std::to_string(max_bytes) +
                                                 " fit");
  }
  if (!core::is_utf8(text)) return not_utf8("a record's key");
  return RecordKey(std::string(text), colon);
}

Result<RecordKey> RecordKey::of(std::string_view owner, std::string_view task) {
  if (owner.find(':') != std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument, "a record's owner contains a colon");
  }
  return parse(std::string(owner) + ':' + std::string(task));
}

Result<RecordData> RecordData::parse(std::string text) {
  if (text.size() > max_bytes) {
    return Error(ErrorCode::InvalidArgument, "a record of " + std::to_string(text.size()) +
                                                 " bytes is too large; at most " + std::to_string(max_bytes) +
                                                 " fit");
  }
  if (!core::is_utf8(text)) return not_utf8("a record's data");
  // Readers of records may skip a byte order mark.
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  const auto times = times_in(std::string_view(text).substr(text.starts_with(mark) ? mark.size() : 0));
  return unchecked(std::move(text), times.expires_at, times.created_at.value_or(WallTime{}));
}

}  // namespace holdfast
