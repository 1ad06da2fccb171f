#include <holdfast/storage_types.hpp>
#include <nlohmann/json.hpp>

#include "core/rfc3339.hpp"
#include "core/utf8.hpp"

namespace holdfast {
namespace {

/// Picks `expiresAt` and `task.createdAt` out of a record without building it.
class TimesReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::optional<std::int64_t> expires_at_ms, created_at_ms;

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_unsigned(number_unsigned_t) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return other_value(); }
  bool string(string_t& text) override {
    if (here_ == Here::expires_at) expires_at_ms = core::parse_rfc3339_ms(text);
    if (here_ == Here::created_at) created_at_ms = core::parse_rfc3339_ms(text);
    here_ = Here::elsewhere;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    in_task_ = in_task_ || here_ == Here::task;
    return other_value();
  }
  bool key(string_t& name) override {
    here_ = Here::elsewhere;
    if (depth_ == 1 && name == "expiresAt") here_ = Here::expires_at;
    if (depth_ == 1 && name == "task") {
      here_ = Here::task;
      created_at_ms.reset();  // an earlier `task` was another one's
    }
    if (depth_ == 2 && in_task_ && name == "createdAt") here_ = Here::created_at;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_task_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return other_value();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  enum class Here : std::uint8_t { elsewhere, expires_at, task, created_at };
  /// A name may occur again; the last one counts.
  bool other_value() {
    if (here_ == Here::expires_at) expires_at_ms.reset();
    if (here_ == Here::created_at) created_at_ms.reset();
    here_ = Here::elsewhere;
    return true;
  }

  Here here_ = Here::elsewhere;
  int depth_ = 0;
  bool in_task_ = false;
};

Error not_utf8(const char* what) {
  return {ErrorCode::InvalidArgument, std::string(what) + " is not valid UTF-8"};
}

}  // namespace

Result<RecordKey> RecordKey::parse(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    return Error(ErrorCode::InvalidArgument, "a record's key is owner:task; there is no colon in this one");
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
  TimesReader times;
  // The parser takes a NUL byte for the end of the text; no JSON has one.
  if (text.find('\0') != std::string::npos || !nlohmann::json::sax_parse(text, &times)) {
    return RecordData(std::move(text), std::nullopt, 0);
  }
  return RecordData(std::move(text), times.expires_at_ms, times.created_at_ms.value_or(0));
}

}  // namespace holdfast
