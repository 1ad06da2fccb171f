#include <holdfast/doctor.hpp>

namespace holdfast {

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      return "problem";
  }
  return "problem";
}

}  // namespace holdfast
