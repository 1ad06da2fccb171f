#include "engine/redis/nested_prefixes.hpp"

#include "engine/redis/layout.hpp"

namespace holdfast::redis {

std::optional<std::string> prefix_of_counter(std::string_view name) {
  constexpr std::string_view mark = "fence:";
  for (auto at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
    if (at > 0 && name[at - 1] != ':') continue;
    const auto prefix = name.substr(0, at == 0 ? 0 : at - 1);
    const auto layout = Layout::make(prefix, 0);
    if (layout && name.starts_with(layout->authority_key())) return std::string(prefix);
  }
  return std::nullopt;
}

bool prefixes_nest(std::string_view one, std::string_view other) {
  const auto contains = [](std::string_view outer, std::string_view inner) {
    return outer.empty() || (inner.starts_with(outer) && inner.substr(outer.size()).starts_with(':'));
  };
  return one != other && (contains(one, other) || contains(other, one));
}

std::vector<std::string> outer_prefixes(std::string_view prefix) {
  std::vector<std::string> outer;
  while (!prefix.empty()) {
    const auto colon = prefix.rfind(':');
    prefix = prefix.substr(0, colon == std::string_view::npos ? 0 : colon);
    // A prefix never ends in a colon.
    if (!prefix.ends_with(':')) outer.emplace_back(prefix);
  }
  return outer;
}

}  // namespace holdfast::redis
