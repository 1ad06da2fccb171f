#include <unistd.h>

#include <algorithm>
#include <holdfast/doctor.hpp>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "context.hpp"
#include "exit_codes.hpp"
#include "output.hpp"
#include "proc_visibility.hpp"

namespace holdfast::cli {
namespace {

void print(const std::vector<Finding>& findings) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& finding : findings) {
    rows.push_back({std::string(to_string(finding.severity)), finding.topic, printable(finding.found)});
    if (!finding.advice.empty()) rows.push_back({"", "", "-> " + printable(finding.advice)});
  }
  print_table(rows);
}

void print_as_json(const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    print_json({{"severity", to_string(finding.severity)},
                {"topic", finding.topic},
                {"found", finding.found},
                {"advice", finding.advice}});
  }
}

int examine(const Context& context) {
  Progress progress;
  if (isatty(STDERR_FILENO) == 1) progress = complain;
  auto findings = holdfast::examine(context.url_or_default(), progress).value_or_throw();
  if (auto hidden = hidden_processes()) findings.push_back(*std::move(hidden));
  if (context.json) {
    print_as_json(findings);
  } else {
    print(findings);
  }
  const bool healthy = std::ranges::all_of(
      findings, [](const Finding& finding) { return finding.severity <= Severity::note; });
  return healthy ? exit_ok : exit_unhealthy;
}

}  // namespace

void add_doctor(Command app, Context& context) {
  auto command = app.add_command("doctor", "Examine where the locks are, and say what would hurt");
  command.footer(
      "Says what was checked and what was found: ok, note (good to know), warning (hurts in a crash or\n"
      "on a busy day) or problem (hurts now, or at the next restart), and what to do about it.\n"
      "It takes no lock. What a Redis user without rights to INFO, CONFIG and MEMORY hides is noted.\n"
      "\n"
      "Exit: 0 nothing worse than a note; 1 a warning or problem; 69 cannot be reached; 77 refuses us.\n"
      "\n"
      "Examples:\n"
      "  holdfast doctor\n"
      "  holdfast --url rediss://locks@cache.internal doctor\n"
      "  holdfast --json doctor | jq 'select(.severity == \"problem\")'");
  command.action([&context] { return examine(context); });
}

}  // namespace holdfast::cli
