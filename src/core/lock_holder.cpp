#include <holdfast/lock_types.hpp>

#include "core/utf8.hpp"

namespace holdfast {

Result<LockHolder> LockHolder::parse(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return Error(ErrorCode::InvalidArgument, "invalid holder label: " + why);
  };
  if (text.empty()) return refuse("it is empty; write none for no label");
  if (text.size() > max_bytes) {
    return refuse(std::to_string(text.size()) + " bytes, at most " + std::to_string(max_bytes));
  }
  if (!core::is_utf8(text)) return refuse("it is not valid UTF-8");
  return LockHolder(std::string(text));
}

Result<std::shared_ptr<const LockHolder>> LockHolder::from_setting(std::string_view text) {
  if (text == none) return std::shared_ptr<const LockHolder>();
  auto label = parse(text);
  if (!label) return label.error();
  return std::make_shared<const LockHolder>(*std::move(label));
}

std::optional<LockHolder> LockHolder::shortened(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string out;
  while (!text.empty()) {
    const auto bytes = core::code_point_bytes(text);
    const auto next = bytes > 0 ? text.substr(0, bytes) : replacement;
    if (out.size() + next.size() > max_bytes) break;
    out += next;
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  if (out.empty()) return std::nullopt;
  return LockHolder(std::move(out));
}

}  // namespace holdfast
