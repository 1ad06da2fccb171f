#include "serve/site/audit_line.hpp"

#include <holdfast/printable.hpp>

namespace holdfast::serve {

std::string AuditLine::text() const {
  std::string line = event == "login_refused" ? "login refused: wrong token" : "";
  for (const auto& [name, value, is_text] : fields) {
    if (!line.empty()) line += ' ';
    line.append(name).append("=");
    line.append(is_text ? "\"" + printable(value) + "\"" : value);
  }
  return line;
}

}  // namespace holdfast::serve
