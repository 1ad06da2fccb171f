#pragma once

#include <cstddef>
#include <functional>
#include <holdfast/json.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::tasks {

/// The members of a JSON object, their values left as the text they are: nothing of what is not looked at is
/// spelt anew, numbers of any size included, and no object is too wide or too deep to be passed on.
class Members {
 public:
  struct Member {
    std::string name;
    std::string value;  ///< JSON; empty: erased
  };

  Members() = default;
  /// Requires an object. Of members with one name the last counts, at the place of the first.
  [[nodiscard]] static Members of(const Json& object);

  /// The value's text; null if there is none.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  /// The text of a value that is a string; null if there is none, or it is something else.
  [[nodiscard]] std::optional<std::string> string(std::string_view name) const;
  /// At the place of the one with that name, or at the end. `value` is valid JSON.
  void set(std::string_view name, std::string value);
  void erase(std::string_view name);

  /// Those that were erased too, with empty values.
  [[nodiscard]] const std::vector<Member>& all() const noexcept { return members_; }

  /// As an object; those named in `first` before the others.
  [[nodiscard]] std::string text(std::span<const std::string_view> first = {}) const;

 private:
  std::vector<Member> members_;
  /// Ordered: names come from callers, who could choose such as collide in any hash they know.
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// A JSON string of this text, which is UTF-8.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace holdfast::tasks
