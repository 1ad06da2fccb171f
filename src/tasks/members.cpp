#include "tasks/members.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace holdfast::tasks {
namespace {

/// The objects of a task's record have six or seven members, the variables usually less: one allocation.
constexpr std::size_t usual_members = 8;

/// Reads the value; takes the bytes of its name in compact form.
Members::Member take_member(core::JsonScanner& scanner, std::string name, std::size_t name_bytes) {
  const auto value = scanner.take_value();
  return {.name = std::move(name),
          .value = std::string(value.text),
          .measure = value.measure,
          .compact_bytes = name_bytes + 1 + value.measure.compact_bytes};
}

}  // namespace

void add_member(std::string& object, std::string_view name, std::string_view value) {
  if (object.size() > 1) object += ',';
  core::append_json_string(object, name);
  object += ':';
  object += value;
}

Members Members::of(const Json& object) {
  core::JsonScanner scanner(object.str());
  scanner.next();
  return read(scanner);
}

Members Members::read(core::JsonScanner& scanner, const std::function<bool(std::string_view)>& nested) {
  Members read;
  auto& members = read.members_;
  members.reserve(usual_members);
  scanner.for_each_member([&] {
    const auto name_bytes = scanner.compact_bytes();
    auto name = scanner.text();
    if (!nested || !nested(name)) members.push_back(take_member(scanner, std::move(name), name_bytes));
  });
  Places sorted(members.size());
  std::iota(sorted.begin(), sorted.end(), 0U);
  std::ranges::sort(sorted, [&members](std::uint32_t a, std::uint32_t b) {
    const auto order = members[a].name <=> members[b].name;
    return order != 0 ? order < 0 : a < b;
  });
  auto& by_name = read.by_name_;
  by_name.reserve(members.size());
  for (const auto at : sorted) {
    if (!by_name.empty() && members[by_name.back()].name == members[at].name) {
      std::swap(members[by_name.back()], members[at]);
      members[at].value.clear();
    } else {
      by_name.push_back(at);
    }
  }
  return read;
}

std::optional<std::size_t> Members::place_of(std::string_view name, std::size_t known) const {
  const auto places = std::span(by_name_).first(known);
  const auto place = std::ranges::lower_bound(places, name, std::less(), name_at());
  if (place == places.end() || members_[*place].name != name) return std::nullopt;
  return static_cast<std::size_t>(place - places.begin());
}

const std::string* Members::find(std::string_view name) const {
  const auto place = place_of(name, by_name_.size());
  const auto* const value = place ? &members_[by_name_[*place]].value : nullptr;
  return value == nullptr || value->empty() ? nullptr : value;
}

std::optional<std::string> Members::string(std::string_view name) const {
  const auto* const value = find(name);
  return value == nullptr ? std::nullopt : string_in(*value);
}

void Members::put(std::vector<Member> changes) {
  const auto known = by_name_.size();
  for (auto& change : changes) {
    const auto place = place_of(change.name, known);
    if (place && !members_[by_name_[*place]].value.empty()) {
      members_[by_name_[*place]] = std::move(change);
      continue;
    }
    const auto at_the_end = static_cast<std::uint32_t>(members_.size());
    (place ? by_name_[*place] : by_name_.emplace_back()) = at_the_end;
    members_.push_back(std::move(change));
  }
  if (by_name_.size() == known) return;
  const auto added = std::span(by_name_).subspan(known);
  std::ranges::sort(added, std::less(), name_at());
  Places merged(by_name_.size());
  std::ranges::merge(std::span(by_name_).first(known), added, merged.begin(), std::less(), name_at(),
                     name_at());
  by_name_ = std::move(merged);
}

void Members::set(std::string_view name, std::string value) {
  const auto measure = core::measure(value);
  const auto bytes = json_string(name).size() + 1 + measure.compact_bytes;
  Member member{
      .name = std::string(name), .value = std::move(value), .measure = measure, .compact_bytes = bytes};
  const auto place = std::ranges::lower_bound(by_name_, name, std::less(), name_at());
  const bool is_known = place != by_name_.end() && members_[*place].name == name;
  if (is_known && !members_[*place].value.empty()) {
    members_[*place] = std::move(member);
    return;
  }
  if (members_.empty()) members_.reserve(usual_members);
  const auto at_the_end = static_cast<std::uint32_t>(members_.size());
  if (is_known) {
    *place = at_the_end;
  } else {
    by_name_.insert(place, at_the_end);
  }
  members_.push_back(std::move(member));
}

void Members::erase(std::string_view name) {
  if (const auto place = place_of(name, by_name_.size())) members_[by_name_[*place]].value.clear();
}

void Members::erase_nulls() {
  for (auto& member : members_) {
    if (member.value == "null") member.value.clear();
  }
}

void Members::merge(const Members& changes) {
  std::vector<Member> kept;
  for (const auto& change : changes.members_) {
    if (change.value == "null") {
      erase(change.name);
    } else if (!change.value.empty()) {
      kept.push_back(change);
    }
  }
  put(std::move(kept));
}

std::string Members::text(std::span<const std::string_view> first) const {
  std::string text = "{";
  add_named(text, first);
  add_others(text, first);
  text += '}';
  return text;
}

void Members::add_named(std::string& object, std::span<const std::string_view> names) const {
  for (const auto name : names) {
    if (const auto* const value = find(name)) add_member(object, name, *value);
  }
}

void Members::add_others(std::string& object, std::span<const std::string_view> names) const {
  for (const auto& member : members_) {
    if (!member.value.empty() && std::ranges::find(names, member.name) == names.end()) {
      add_member(object, member.name, member.value);
    }
  }
}

std::size_t Members::compact_bytes() const noexcept {
  std::size_t bytes = 1;  // each member has a bracket or a comma before it
  for (const auto& member : members_) bytes += member.value.empty() ? 0 : member.compact_bytes + 1;
  return std::max<std::size_t>(bytes, 2);
}

}  // namespace holdfast::tasks
