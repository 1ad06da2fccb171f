#include "serve/site/audit_line.hpp"

#include <holdfast/printable.hpp>

namespace holdfast::serve {
namespace {

/// Between quotes, which the text itself cannot end: a client that chose it would write fields of the line.
std::string quoted(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return "\"" + printable(escaped) + "\"";
}

}  // namespace

std::string AuditLine::text() const {
  std::string line = event == "login_refused" ? "login refused: wrong token" : "";
  for (const auto& [name, value, is_text] : fields) {
    if (!line.empty()) line += ' ';
    line.append(name).append("=");
    line.append(is_text ? quoted(value) : value);
  }
  return line;
}

}  // namespace holdfast::serve
