#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "output_parts.hpp"
#include "program.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

struct BadInput {
  std::vector<std::string> typed;
  int code;
  std::string said;
};

class Usage : public CliTest {};

TEST_F(Usage, EveryCommandHasAManualPageMadeOfItsHelp) {
  const TempDir directory;
  EXPECT_EQ(holdfast({"manual", "--directory", directory.path().string()}).code, 0);
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    pages.insert(entry.path().filename().string());
  }
  EXPECT_TRUE(pages.erase("holdfast.1") == 1);
  const auto whole = holdfast({"manual"}).out;
  EXPECT_GE(pages.size(), 9U);
  for (const auto& page : pages) {
    const auto command = page.substr(9, page.size() - 11);  // holdfast-FAMILY.1
    const auto text = holdfast({"manual", command}).out;
    EXPECT_EQ(text.find(".TH HOLDFAST-"), 0U) << page;
    EXPECT_NE(text.find("\n.SH SYNOPSIS\n\\fBholdfast " + command), std::string::npos) << page;
    EXPECT_NE(whole.find("\\fBholdfast\\-" + command + "\\fR(1)"), std::string::npos) << page;
    // A line that begins with a dot is a request, and each is one that roff knows.
    for (const auto& line : lines_of(text)) {
      if (line.starts_with(".")) {
        EXPECT_TRUE(std::regex_match(line, std::regex(R"(\.(TH|SH|TP|PP|br|nf|fi)( .*)?)")))
            << page << ": " << line;
      }
    }
  }
  const auto run = holdfast({"manual", "run"}).out;
  EXPECT_NE(run.find("\\fB\\-n\\fR, \\fB\\-\\-no\\-wait\\fR\n"), std::string::npos) << run;
  // The comment of an example has a line of its own: with it the command would be too long for a terminal.
  EXPECT_NE(
      run.find(".TP\nholdfast run \\-n nightly\\-backup \\-\\- ./backup.sh\nexit 75 if the lock is held\n"),
      std::string::npos)
      << run;
  std::size_t at = 0;
  for (const auto* heading : {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS",
                              "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"}) {
    const auto found = whole.find(".SH " + std::string(heading) + "\n");
    EXPECT_GT(found, at) << heading;
    EXPECT_NE(found, std::string::npos) << heading;
    at = found;
  }
  EXPECT_EQ(holdfast({"manual", "frobnicate"}).code, 64);
  EXPECT_EQ(holdfast({"manual", "--directory", "/nonexistent"}).code, 64);
}

TEST_F(Usage, BadInputIsRefusedWithItsCodeAndAReason) {
  const std::string id(22, 'A');
  const std::vector<BadInput> table{
      {{},
       64,
       "command missing; holdfast has: run, lock, task, queue, top, rpc, serve, doctor, bench, completion, "
       "manual. Try: holdfast --help"},
      {{"lock"},
       64,
       "command missing; holdfast lock has: acquire, release, extend, show, owns, list, break. Try: holdfast "
       "lock --help"},
      {{"task"}, 64, "command missing; holdfast task has: run, add, work, create, get"},
      {{"help", "frobnicate"}, 64, "unknown command \"frobnicate\"; holdfast has: run"},
      {{"help", "run", "k"},
       64,
       "unknown command \"k\"; holdfast run has no subcommands. Try: holdfast run --help"},
      {{"help", "redis://:sesame@h"}, 64, "a URL?"},
      {{"redis://h?password=sesame"}, 64, "a URL?"},
      {{"lock", "list", "redis://h?password=sesame"}, 64, "it may be a URL with a password"},
      {{"frobnicate"},
       64,
       "unknown command \"frobnicate\"; holdfast has: run, lock, task, queue, top, rpc, serve, doctor, "
       "bench, "
       "completion"},
      {{"lock", "steal"}, 64, "unknown command \"steal\"; holdfast lock has: acquire"},
      {{"task", "retry"},
       64,
       "unknown command \"retry\"; there is holdfast queue retry; holdfast task has: run"},
      {{"acquire"}, 64, "unknown command \"acquire\"; there is holdfast lock acquire; holdfast has: run"},
      {{"queue", "retry", "q"}, 64, "holdfast queue retry QUEUE takes a task ID, or --all"},
      {{"--frobnicate"}, 64, "unknown option \"--frobnicate\""},
      {{"run", "-nxw5", "k", "true"}, 64, "unknown option \"-x\"; see holdfast run --help"},
      {{"run"}, 64, "KEY is required"},
      {{"run", "k"}, 64, "COMMAND is missing"},
      {{"run", "k", "--"}, 64, "COMMAND is missing"},
      {{"run", "--frobnicate", "k", "--", "true"}, 64, "--frobnicate"},
      {{"run", "", "--", "true"}, 64, "empty"},
      {{"run", std::string(513, 'x'), "--", "true"}, 64, "at most 512"},
      {{"run", "\xff\xfe", "--", "true"}, 64, "UTF-8"},
      {{"run", "--ttl", "0", "k", "--", "true"}, 64, "--ttl: \"0\" must be more than zero"},
      {{"run", "--ttl", "-1", "k", "--", "true"}, 64, "negative"},
      {{"run", "--ttl", "nan", "k", "--", "true"}, 64, "not a duration"},
      {{"run", "--ttl", "", "k", "--", "true"}, 64, "not a duration"},
      {{"run", "--ttl", "367d", "k", "--", "true"}, 64, "366 days"},
      {{"run", "--ttl", "0.0001", "k", "--", "true"}, 64, "whole number of milliseconds"},
      {{"run", "--ttl"}, 64, "--ttl"},
      {{"run", "--ttl", "5", "--ttl", "6", "k", "--", "true"}, 64, "--ttl"},
      {{"run", "-w", "-1", "k", "--", "true"}, 64, "negative"},
      {{"run", "-w", "soon", "k", "--", "true"}, 64, "not a duration"},
      {{"run", "-w", "", "k", "--", "true"}, 64, "not a duration"},
      {{"run", "-w", "99999999999999999999", "k", "--", "true"}, 64, "too long"},
      {{"run", "-n", "-w", "5", "k", "--", "true"}, 64, "excludes"},
      {{"run", "-E", "256", "k", "--", "true"},
       64,
       "--conflict-exit-code: \"256\" is not a whole number from 0 to 255; see holdfast run --help"},
      {{"run", "-E", "-1", "k", "--", "true"}, 64, "-1"},
      {{"run", "-E", "x", "k", "--", "true"}, 64, "\"x\" is not a whole number from 0 to 255"},
      {{"run", "-E", "7x", "k", "--", "true"}, 64, "\"7x\" is not a whole number"},
      {{"run", "--ttl", "3", "--grace", "1.001", "k", "--", "true"}, 64, "more than a third of the --ttl"},
      {{"run", "--max-hold", "0", "k", "--", "true"}, 64, "more than zero"},
      {{"run", "--max-hold", "3", "--grace", "2", "k", "--", "true"},
       64,
       "more than a third of the --max-hold"},
      {{"--url", "", "lock", "list"}, 64, "is empty"},
      {{"--url", "mysql://x", "lock", "list"}, 64, "mysql"},
      {{"--url", "redis://u:sesame@h:0", "lock", "list"}, 64, "the port"},
      {{"--url", "redis://h?db=x", "doctor"}, 64, "the database"},
      {{"--url", "redis://127.0.0.1:1", "lock", "list"}, 69, "127.0.0.1:1"},
      {{"--url", "redis://127.0.0.1:1", "doctor"}, 69, "127.0.0.1:1"},
      {{"--url", "unix:" + file("no.sock").string(), "doctor"}, 69, "no.sock"},
      {{"--url", "mysql://x", "doctor"}, 64, "mysql"},
      {{"doctor", "x"}, 64, "unexpected argument \"x\"; see holdfast doctor --help"},
      {{"--url", "nonsense", "lock", "list"}, 64, "invalid URL; use sqlite:PATH"},
      {{"--url", "memory:x", "lock", "list"}, 64, "may follow memory:"},
      {{"--url", "system:?hodler=x", "lock", "list"}, 64, "may follow system:"},
      {{"--url", "sqlite:" + file("x.db?hodler=web-3").string(), "lock", "list"},
       64,
       "unknown parameter \"hodler\"; holder and"},
      {{"--url", "/tmp/x.db", "lock", "list"}, 64, "did you mean sqlite:/tmp/x.db?"},
      {{"--url", "/tmp/x@y.db", "lock", "list"}, 64, "invalid URL; use sqlite:PATH"},
      {{"--url", "sqlite:" + file("no/such/dir.db").string(), "lock", "list"}, 69, "no/such"},
      {{"--url", "sqlite:" + directory().string(), "lock", "list"}, 69, "directory"},
      {{"lock", "acquire"}, 64, "KEY is required"},
      {{"lock", "acquire", "a", "b"}, 64, "b"},
      {{"lock", "acquire", ""}, 64, "empty"},
      {{"lock", "acquire", "k", "--ttl", "0"}, 64, "more than zero"},
      {{"lock", "release"}, 64, "ID is required"},
      {{"lock", "release", ""}, 64, "22"},
      {{"lock", "release", "short"}, 64, "22"},
      {{"lock", "release", std::string(22, '+')}, 64, "22"},
      {{"lock", "release", id}, 1, "holds no lock"},
      {{"lock", "extend", id}, 64, "--ttl is required"},
      {{"lock", "extend", id, "--ttl", "0"}, 64, "more than zero"},
      {{"lock", "extend", id, "--ttl", "5"}, 1, "holds no lock"},
      {{"lock", "show"}, 64, "either KEY or --id"},
      {{"lock", "show", "k", "--id", id}, 64, "either KEY or --id"},
      {{"lock", "show", "k"}, 1, "\"k\" is not held"},
      {{"lock", "show", "--id", "x"}, 64, "22"},
      {{"lock", "show", "--id", id}, 1, "holds no lock"},
      {{"lock", "owns", "k"}, 64, "ID is required"},
      {{"lock", "owns", "k", "short"}, 64, "22"},
      {{"lock", "owns", "k", id}, 1, "does not hold \"k\""},
      {{"lock", "break"}, 64, "KEY is required"},
      {{"lock", "break", "k"}, 64, "--reason is required"},
      {{"lock", "break", "k", "--reason", ""}, 64, "--reason"},
      {{"lock", "break", "k", "--reason", "  "}, 64, "--reason: is empty"},
      {{"lock", "break", "k", "--reason", "two\nlines"}, 64, "one line"},
      {{"lock", "break", "k", "--reason", "\x1b[2J"}, 64, "control characters"},
      {{"lock", "break", "k", "--reason", "x", "--fence", "x"}, 64, "is not a valid fence"},
      {{"lock", "break", "", "--reason", "x"}, 64, "empty"},
      {{"lock", "break", "k", "--reason", "x"}, 1, "\"k\" is not held"},
      {{"task", "list", "--all-owners", "--owner", "x"}, 64, "excludes"},
      {{"task", "list", "--all-owners", "--cursor", "x"}, 64, "excludes"},
      {{"task", "list", "--all-owners", "--status", "x"}, 64, "is not a task status"},
      {{"task", "list", "--all-owners", "--limit", "0"}, 64, "0"},
      {{"completion"}, 64, "SHELL is required"},
      {{"completion", "tcsh"}, 64, "tcsh"},
  };
  for (const auto& [typed, code, said] : table) {
    const auto result = holdfast(typed);
    std::string line = "holdfast";
    for (const auto& word : typed) line += " '" + word + "'";
    EXPECT_EQ(result.code, code) << line << "\n" << result.err;
    EXPECT_NE(result.err.find(said), std::string::npos) << line << "\n" << result.err;
    EXPECT_TRUE(result.err.starts_with("holdfast: ")) << line << "\n" << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << line << "\n" << result.err;
    EXPECT_EQ(result.out, "") << line;
  }
}

TEST_F(Usage, AForgottenValueIsNotTakenFromElsewhere) {
  const auto created = holdfast({"task", "create"});
  const auto id = created.out.substr(0, created.out.find('\n'));
  struct Forgotten {
    std::vector<std::string> typed;
    std::string option;
  };
  const std::vector<Forgotten> table{
      {{"task", "fail", id, "--message"}, "--message"},
      {{"task", "fail", "--message", "--", id}, "--message"},
      {{"task", "create", "a=1", "--method"}, "--method"},
      {{"task", "set", id, "a=1", "--fence", "5", "--fence-key"}, "--fence-key"},
      {{"task", "cancel", id, "--owner"}, "--owner"},
      {{"task", "run", "--method", "--", "true"}, "--method"},
      {{"lock", "acquire", "k", "--ttl"}, "--ttl"},
      {{"run", "k", "--ttl"}, "--ttl"},
      {{"run", "k", "-nw", "--", "true"}, "-w"},
      {{"lock", "list", "--url"}, "--url"},
      {{"task", "fail", id, "--message", "--json"}, "--message"},
      {{"task", "run", "--method", "--owner=alice", "true"}, "--method"},
      {{"run", "-w", "-n", "k", "true"}, "-w"},
  };
  for (const auto& [typed, option] : table) {
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 64) << typed[1] << result.err;
    EXPECT_NE(result.err.find(option + ": value missing"), std::string::npos) << result.err;
  }
  EXPECT_EQ(nlohmann::json::parse(holdfast({"--json", "task", "get", id}).out).at("version"), 1)
      << "nothing was changed";
  EXPECT_EQ(holdfast({"task", "fail", id, "--message=--"}).code, 0) << "for who means it";
}

TEST_F(Usage, AFileThatIsNoDatabaseIsUnavailableAndUntouched) {
  std::ofstream(file("text.db")) << "this is not a database, and it is longer than a header would be.\n"
                                 << std::string(2000, 'x');
  const auto before = contents(file("text.db"));
  const auto result = holdfast({"--url", "sqlite:" + file("text.db").string(), "run", "k", "--", "true"});
  EXPECT_EQ(result.code, 69) << result.err;
  EXPECT_NE(result.err.find("text.db"), std::string::npos) << result.err;
  EXPECT_EQ(contents(file("text.db")), before);
}

TEST_F(Usage, AFileThatMayNotBeWrittenIsRefused) {
  ASSERT_EQ(holdfast({"run", "k", "--", "true"}).code, 0);
  std::filesystem::permissions(file("locks.db"), std::filesystem::perms::owner_read);
  // For root to be refused like anybody else.
  const Program::Options mortal{.before_exec = [] {
    prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
    prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
  }};
  const auto result = holdfast({"run", "k", "--", "true"}, mortal);
  EXPECT_EQ(result.code, 77) << result.err;
  EXPECT_NE(result.err.find("locks.db"), std::string::npos) << result.err;
}

TEST_F(Usage, WithoutAUrlTheLocksAreInTheStateDirectory) {
  const Program::Options options{
      .environment = {"HOLDFAST_URL=", "XDG_STATE_HOME=" + (directory() / "state").string()}};
  EXPECT_EQ(holdfast({"lock", "acquire", "k"}, options).code, 0);
  EXPECT_EQ(holdfast({"lock", "show", "k"}, options).code, 0);
  struct stat found{};
  ASSERT_EQ(stat(file("state/holdfast/holdfast.db").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(Usage, ErrorsAreJsonOnStderrIfAskedFor) {
  const auto result = holdfast({"--json", "run", "--ttl", "0", "k", "--", "true"});
  EXPECT_EQ(result.code, 64);
  EXPECT_EQ(result.out, "");
  const auto error = nlohmann::json::parse(result.err).at("error");
  EXPECT_EQ(error.at("code"), "InvalidArgument");
  EXPECT_NE(error.at("message").get<std::string>().find("--ttl"), std::string::npos);
}

TEST_F(Usage, AJsonOptionOfTheCommandIsNotOurs) {
  const auto result = holdfast({"run", "--ttl", "0", "k", "true", "--json"});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(result.err.starts_with("holdfast: --ttl")) << result.err;
}

TEST_F(Usage, ControlCharactersOfAKeyDoNotReachTheTerminal) {
  const auto result = holdfast({"lock", "show", "a\x1b[2Jb\nc\x7f\xc2\x9b"});
  EXPECT_EQ(result.err, "holdfast: \"a\\x1b[2Jb\\x0ac\\x7f\\xc2\\x9b\" is not held\n");
}

TEST_F(Usage, EveryLevelHasHelpWithExamples) {
  for (const std::vector<std::string>& level : std::vector<std::vector<std::string>>{{},
                                                                                     {"run"},
                                                                                     {"lock"},
                                                                                     {"lock", "acquire"},
                                                                                     {"lock", "release"},
                                                                                     {"lock", "extend"},
                                                                                     {"lock", "show"},
                                                                                     {"lock", "list"},
                                                                                     {"task"},
                                                                                     {"task", "create"},
                                                                                     {"task", "get"},
                                                                                     {"task", "list"},
                                                                                     {"task", "update"},
                                                                                     {"task", "set"},
                                                                                     {"task", "result"},
                                                                                     {"task", "complete"},
                                                                                     {"task", "fail"},
                                                                                     {"task", "cancel"},
                                                                                     {"task", "wait"},
                                                                                     {"task", "rm"},
                                                                                     {"task", "bind"},
                                                                                     {"task", "rebind"},
                                                                                     {"task", "run"},
                                                                                     {"task", "cleanup"},
                                                                                     {"top"},
                                                                                     {"doctor"},
                                                                                     {"completion"}}) {
    for (const char* flag : {"--help", "-h"}) {
      auto typed = level;
      typed.emplace_back(flag);
      const auto result = holdfast(typed);
      EXPECT_EQ(result.code, 0);
      EXPECT_EQ(result.err, "");
      EXPECT_NE(result.out.find("Usage: holdfast"), std::string::npos) << result.out;
      EXPECT_NE(result.out.find("Examples:"), std::string::npos) << result.out;
      auto asked = level;
      asked.insert(asked.begin(), "help");
      EXPECT_EQ(holdfast(asked).out, result.out);
    }
  }
}

TEST_F(Usage, TheVersionIsPrinted) {
  const auto result = holdfast({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.out.starts_with("holdfast 0.")) << result.out;
}

TEST_F(Usage, GlobalOptionsMayComeAfterTheSubcommand) {
  const auto other = "sqlite:" + file("other.db").string();
  EXPECT_EQ(holdfast({"lock", "acquire", "k", "--url", other, "--json"}).code, 0);
  EXPECT_EQ(holdfast({"--url", other, "lock", "show", "k"}).code, 0);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(Usage, CompletionScriptsParseAndKnowTheOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = holdfast({"completion", shell});
    EXPECT_EQ(script.code, 0);
    EXPECT_NE(script.out.find("max-hold"), std::string::npos) << script.out;
    EXPECT_NE(script.out.find("acquire"), std::string::npos) << script.out;
  }
  const std::string ask =
      "source <(\"$HOLDFAST\" completion bash) || exit 9\n"
      "complete_line() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _holdfast; echo \"${COMPREPLY[*]}\"; "
      "}\n"
      "complete_line holdfast ''\n"
      "complete_line holdfast --url x lo\n"
      "complete_line holdfast lock re\n"
      "complete_line holdfast run --max\n"
      "complete_line holdfast run -w 5 key ''\n"
      "complete_line holdfast completion z\n"
      "complete_line holdfast task re\n"
      "complete_line holdfast task run --le\n"
      "complete_line holdfast task list --s\n"
      "complete_line holdfast lock list ''\n"
      "complete_line holdfast lock acquire ''\n"
      "complete_line holdfast run -w ''\n"
      "complete_line holdfast lock list -\n"
      "complete_line holdfast task work q ''\n"
      "_command_offset() { COMPREPLY=(\"the command from word $1\"); }\n"
      "complete_line holdfast task work q -- tru\n";
  const auto result =
      Program(directory(), {"bash", "-c", ask}, {.environment = {"HOLDFAST=" + holdfast_program()}}).wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "run lock task queue top rpc serve doctor bench completion manual\nlock\nrelease\n--max-hold\n--\nzsh\n"
      "result rebind\n--lease\n--status --system\n\n\n\n-h --help --raw --url --system --json\n--\n"
      "the command from word 5\n")
      << result.err;
}

}  // namespace
}  // namespace holdfast::test
