#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::serve {

/// One line of the log of a server: what was done, or refused.
struct AuditLine {
  struct Field {
    std::string name;
    std::string value = {};
    /// Written between quotes: clients may have chosen it. In JSON it is a string as all values are.
    bool is_text = false;
  };
  /// `action` or `login_refused`.
  std::string_view event;
  std::vector<Field> fields = {};

  /// `action=break_lock key="..." ... result=done`: one line, printable. In quoted values, backslashes and
  /// quotes have a backslash before them.
  [[nodiscard]] std::string text() const;
};

}  // namespace holdfast::serve
