#include <unistd.h>

#include <algorithm>
#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <nlohmann/json.hpp>

#include "arguments/context.hpp"
#include "doctor/proc_visibility.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

void print_findings(const std::vector<Finding>& findings) {
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

nlohmann::ordered_json as_json(const RedisAcl& acl) {
  auto commands = nlohmann::ordered_json::array();
  for (const auto& command : acl.commands) {
    commands.push_back(
        {{"name", command.name}, {"severity", to_string(command.severity)}, {"without", command.without}});
  }
  return {{"user", acl.user},
          {"keys", acl.keys},
          {"channels", acl.channels},
          {"commands", std::move(commands)},
          {"line", acl.line()}};
}

/// The line for the sentinels begins with a word that no server takes as a command: at the master it would
/// replace the rights of a user of the same name.
void print_acl_lines(const RedisAcl& acl, const std::optional<RedisAcl>& of_sentinels) {
  if (acl.user == "USER") {
    complain("the URL names no user, so the line contains USER; pass --url redis://NAME@HOST");
  }
  print_text(acl.line());
  if (!of_sentinels) return;
  if (of_sentinels->user == "USER") {
    complain("the URL names no sentinel_user; with one, the rights at the sentinels are printed too");
    return;
  }
  print_text("sentinels: " + of_sentinels->line());
}

int print_acl(const Context& context) {
  const auto acl = redis_acl(context.url_or_default()).value_or_throw();
  const auto options = parse_redis_url(context.url_or_default()).value_or_throw();
  std::optional<RedisAcl> of_sentinels;
  if (!options.sentinels.empty()) of_sentinels = redis_sentinel_acl(options).value_or_throw();
  if (!context.json) {
    print_acl_lines(acl, of_sentinels);
    return exit_ok;
  }
  auto printed = as_json(acl);
  if (of_sentinels) printed["sentinels"] = as_json(*of_sentinels);
  print_json(printed);
  return exit_ok;
}

int examine(const Context& context) {
  Progress progress;
  if (isatty(STDERR_FILENO) == 1) progress = [](std::string_view message) { complain(message); };
  auto findings = holdfast::examine(context.url_or_default(), progress).value_or_throw();
  if (auto hidden = hidden_processes()) findings.push_back(*std::move(hidden));
  if (context.json) {
    print_as_json(findings);
  } else {
    print_findings(findings);
  }
  const bool healthy = std::ranges::all_of(
      findings, [](const Finding& finding) { return finding.severity <= Severity::note; });
  return healthy ? exit_ok : exit_unhealthy;
}

}  // namespace

void fill_doctor(Command command, Context& context) {
  auto acl = std::make_shared<bool>(false);
  command.add_flag("--acl", *acl, "Print the ACL that a Redis user needs, without contacting a server");
  command.footer(
      "Prints one line per check: ok, note (good to know), warning (fails in a crash or under load) or\n"
      "problem (fails now, or at the next restart), each with advice. It acquires no lock. A note names the\n"
      "checks that a Redis user without rights to INFO, CONFIG and MEMORY cannot run.\n"
      "--acl prints the ACL SETUSER line with the rights that this version needs, for the user and the\n"
      "prefixes of the URL. Add the password yourself. Redis replicates no users: run the line on the\n"
      "master, on every replica and on every node of a cluster. With sentinel_user in the URL, a second\n"
      "line, after \"sentinels: \", is for every sentinel.\n"
      "\n"
      "Exit: 0 nothing worse than a note; 1 a warning or problem; 69 store unavailable; 77 access denied.\n"
      "\n"
      "Examples:\n"
      "  holdfast doctor\n"
      "  holdfast --url rediss://locks@cache.internal doctor\n"
      "  holdfast --url redis://locks@cache.internal doctor --acl | redis-cli\n"
      "  holdfast --json doctor | jq 'select(.severity == \"problem\")'");
  command.action([&context, acl] { return *acl ? print_acl(context) : examine(context); });
}

}  // namespace holdfast::cli
