#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_scanner.hpp"

namespace holdfast::tasks {

using core::json_string;

/// The members of a JSON object, with their values kept as text. Values that are not read are never
/// rewritten, whatever the size of their numbers, and an object of any width or depth can be passed on.
class Members {
 public:
  struct Member {
    std::string name;
    std::string value;  ///< JSON; empty: erased
    core::JsonMeasure measure;
    std::size_t compact_bytes = 0;  ///< with its name and the colon
  };

  Members() = default;
  /// Requires an object. Of duplicate names the last value counts, at the place of the first.
  [[nodiscard]] static Members of(const Json& object);
  /// The same for an object that is the scanner's current token; reads to its end. If `nested(name)` returns
  /// true, it has read that value, which is left out here.
  [[nodiscard]] static Members read(core::JsonScanner& scanner,
                                    const std::function<bool(std::string_view)>& nested = {});

  /// The value's text; null if there is none.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  /// The text of a value that is a string; null if there is none, or it is something else.
  [[nodiscard]] std::optional<std::string> string(std::string_view name) const;
  /// Replaces the member with that name, or appends one. `value` is valid JSON.
  void set(std::string_view name, std::string value);
  void erase(std::string_view name);
  void erase_nulls();
  /// Sets them all; null erases.
  void merge(const Members& changes);

  /// Includes erased members, with empty values.
  [[nodiscard]] const std::vector<Member>& all() const noexcept { return members_; }

  /// As an object; those named in `first` before the others.
  [[nodiscard]] std::string text(std::span<const std::string_view> first = {}) const;
  // The same in two parts, to an object that lacks its last bracket.
  void add_named(std::string& object, std::span<const std::string_view> names) const;
  void add_others(std::string& object, std::span<const std::string_view> names) const;
  /// The bytes of that in compact form.
  [[nodiscard]] std::size_t compact_bytes() const noexcept;

 private:
  using Places = std::vector<std::uint32_t>;
  [[nodiscard]] auto name_at() const {
    return [this](std::uint32_t at) -> std::string_view { return members_[at].name; };
  }
  /// The place of this name among the first `known` places.
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view name, std::size_t known) const;
  /// Sets members, each name once.
  void put(std::vector<Member> changes);

  std::vector<Member> members_;
  /// Sorted by name, each name once. Not hashed: callers choose the names, and could make them collide in any
  /// known hash.
  Places by_name_;
};

/// Appends a member to an object that lacks its last bracket.
void add_member(std::string& object, std::string_view name, std::string_view value);

}  // namespace holdfast::tasks
