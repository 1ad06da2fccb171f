#include "tasks/members.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::tasks {
namespace {

constexpr std::string_view space = " \t\r\n";

/// Walks over valid JSON. Not recursive.
class Walker {
 public:
  explicit Walker(std::string_view json) noexcept : rest_(json) {}

  void skip_space() noexcept { rest_.remove_prefix(std::min(rest_.find_first_not_of(space), rest_.size())); }
  [[nodiscard]] char next() const noexcept { return rest_.front(); }
  void skip_one() noexcept { rest_.remove_prefix(1); }
  /// Requires that a value begins here.
  [[nodiscard]] std::string_view take_value() noexcept {
    std::size_t end = 0;
    std::size_t open = 0;
    do {
      const char c = rest_[end];
      if (c == '"') {
        end = end_of_string(end);
        continue;
      }
      if (c == '{' || c == '[') ++open;
      if (c == '}' || c == ']') --open;
      ++end;
      if (open == 0 && c != '}' && c != ']') {  // a number or a word
        end = std::min(rest_.find_first_of(",]} \t\r\n", end), rest_.size());
      }
    } while (open > 0);
    const auto value = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return value;
  }

 private:
  /// Where it ends that begins here.
  [[nodiscard]] std::size_t end_of_string(std::size_t at) const noexcept {
    for (++at; rest_[at] != '"'; ++at) {
      if (rest_[at] == '\\') ++at;
    }
    return at + 1;
  }

  std::string_view rest_;
};

/// Of a JSON string.
std::string unquoted(std::string_view literal) {
  const auto inside = literal.substr(1, literal.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return std::string(inside);
  return nlohmann::json::parse(literal).get<std::string>();
}

}  // namespace

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump();
}

Members Members::of(const Json& object) {
  Members members;
  Walker walker(object.str());
  walker.skip_one();
  for (;;) {
    walker.skip_space();
    if (walker.next() == '}') return members;
    if (walker.next() == ',') {
      walker.skip_one();
      continue;
    }
    const auto name = unquoted(walker.take_value());
    walker.skip_space();
    walker.skip_one();  // the colon
    walker.skip_space();
    members.set(name, std::string(walker.take_value()));
  }
}

const std::string* Members::find(std::string_view name) const {
  const auto at = places_.find(name);
  if (at == places_.end() || members_[at->second].value.empty()) return nullptr;
  return &members_[at->second].value;
}

std::optional<std::string> Members::string(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr || value->front() != '"') return std::nullopt;
  return unquoted(*value);
}

void Members::set(std::string_view name, std::string value) {
  const auto at = places_.find(name);
  if (at != places_.end()) {
    members_[at->second].value = std::move(value);
    return;
  }
  places_.emplace(name, members_.size());
  members_.push_back({.name = std::string(name), .value = std::move(value)});
}

void Members::erase(std::string_view name) {
  const auto at = places_.find(name);
  if (at == places_.end()) return;
  members_[at->second].value.clear();
  places_.erase(at);
}

std::string Members::text(std::span<const std::string_view> first) const {
  std::string text = "{";
  const auto add = [&text](std::string_view name, const std::string& value) {
    if (text.size() > 1) text += ',';
    text += json_string(name);
    text += ':';
    text += value;
  };
  for (const auto name : first) {
    if (const auto* value = find(name)) add(name, *value);
  }
  for (const auto& member : members_) {
    if (!member.value.empty() && std::ranges::find(first, member.name) == first.end()) {
      add(member.name, member.value);
    }
  }
  return text + '}';
}

}  // namespace holdfast::tasks
