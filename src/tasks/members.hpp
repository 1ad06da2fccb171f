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

/// The members of a JSON object, their values left as the text they are: nothing of what is not looked at is
/// spelt anew, numbers of any size included, and no object is too wide or too deep to be passed on.
class Members {
 public:
  struct Member {
    std::string name;
    std::string value;  ///< JSON; empty: erased
    core::JsonMeasure measure;
    std::size_t compact_bytes = 0;  ///< with its name and the colon
  };

  Members() = default;
  /// Requires an object. Of members with one name the last counts, at the place of the first.
  [[nodiscard]] static Members of(const Json& object);
  /// The same of an object that is the scanner's current token; reads to its end. Where `nested(name)` is
  /// true it has read the value, which is left out here.
  [[nodiscard]] static Members read(core::JsonScanner& scanner,
                                    const std::function<bool(std::string_view)>& nested = {});

  /// The value's text; null if there is none.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  /// The text of a value that is a string; null if there is none, or it is something else.
  [[nodiscard]] std::optional<std::string> string(std::string_view name) const;
  /// At the place of the one with that name, or at the end. `value` is valid JSON.
  void set(std::string_view name, std::string value);
  void erase(std::string_view name);
  /// Sets them all; null erases.
  void merge(const Members& changes);

  /// Those that were erased too, with empty values.
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
  /// Of this name, among the first `known` places.
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view name, std::size_t known) const;
  /// Sets members, each name once.
  void put(std::vector<Member> changes);

  std::vector<Member> members_;
  /// Sorted by name, each name once. Not hashed: names come from callers, who could choose such as collide in
  /// any hash they know.
  Places by_name_;
};

/// Appends a member to an object that lacks its last bracket.
void add_member(std::string& object, std::string_view name, std::string_view value);

}  // namespace holdfast::tasks
