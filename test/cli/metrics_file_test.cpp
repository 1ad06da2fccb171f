// The metrics of `run`, `task run` and `rpc`.

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "http_get.hpp"
#include "program.hpp"
#include "rpc_client.hpp"
#include "support/prometheus_page.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

class MetricsFiles : public RpcTest {
 protected:
  [[nodiscard]] std::string path() const { return file("nightly.prom").string(); }
  [[nodiscard]] PrometheusPage page() const { return PrometheusPage(contents(path())); }
  [[nodiscard]] double value(const std::string& name, const std::string& more = {}) const {
    return page().value(name + "{" + more + "holdfast_job=\"nightly\"}");
  }
  [[nodiscard]] double runs(const std::string& result) const {
    return page().value("holdfast_runs_total{holdfast_job=\"nightly\",result=\"" + result + "\"}");
  }
  Finished run(std::vector<std::string> command, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"run", "--metrics-file", path()});
    options.insert(options.end(), {"key \"1\"", "--"});
    options.insert(options.end(), command.begin(), command.end());
    return holdfast(options);
  }
  /// Names in the directory but those of the store and of the outputs of programs.
  [[nodiscard]] std::vector<std::string> left_behind() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".tmp")) names.push_back(name);
    }
    return names;
  }
};

TEST_F(MetricsFiles, OfARunHaveItsTimesItsFenceAndItsOutcome) {
  EXPECT_EQ(run({"true"}).code, 0);
  EXPECT_EQ(value("holdfast_run_last_exit_code"), 0);
  EXPECT_EQ(value("holdfast_run_last_lock_acquired"), 1);
  EXPECT_EQ(value("holdfast_run_last_lock_lost"), 0);
  EXPECT_EQ(value("holdfast_run_last_fence"), 1);
  EXPECT_EQ(value("holdfast_run_last_success_timestamp_seconds"),
            value("holdfast_run_last_end_timestamp_seconds"));
  EXPECT_LE(value("holdfast_run_last_start_timestamp_seconds"),
            value("holdfast_run_last_end_timestamp_seconds"));
  EXPECT_GE(value("holdfast_run_last_duration_seconds"), value("holdfast_run_last_hold_seconds"));
  EXPECT_EQ(runs("ok"), 1);
  EXPECT_EQ(value("holdfast_lock_hold_seconds_count", "backend=\"sqlite\","), 1);
  EXPECT_EQ(contents(path()).find("key"), std::string::npos) << "no key is in the metrics";
  struct stat status{};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  const auto mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777U, 0644U & ~mask) << "node_exporter can read it";
  EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(MetricsFiles, KeepTheLastSuccessAndTheCountersOfAllRuns) {
  EXPECT_EQ(run({"true"}).code, 0);
  const auto success = value("holdfast_run_last_success_timestamp_seconds");
  EXPECT_EQ(run({"false"}).code, 1);
  EXPECT_EQ(value("holdfast_run_last_success_timestamp_seconds"), success);
  EXPECT_EQ(value("holdfast_run_last_exit_code"), 1);
  EXPECT_EQ(run({"/no/such/file"}).code, 127);
  EXPECT_EQ(holdfast({"lock", "acquire", "-n", "key \"1\""}).code, 0);
  EXPECT_EQ(run({"true"}, {"-n", "-E", "0"}).code, 0);
  EXPECT_EQ(value("holdfast_run_last_success_timestamp_seconds"), success) << "it did not run";
  EXPECT_EQ(value("holdfast_run_last_lock_acquired"), 0);
  EXPECT_EQ(runs("ok"), 1);
  EXPECT_EQ(runs("failed"), 2);
  EXPECT_EQ(runs("not-acquired"), 1);
  const auto all = page();
  EXPECT_EQ(all.value("holdfast_lock_waits_total{backend=\"sqlite\",holdfast_job=\"nightly\",result=\"ok\"}"),
            3);
  EXPECT_EQ(all.value("holdfast_lock_wait_seconds_count{backend=\"sqlite\",holdfast_job=\"nightly\"}"), 4)
      << "a run waits once, however often it asks the engine";
}

TEST_F(MetricsFiles, SayThatTheLockWasLost) {
  const auto running = start({"run", "--ttl", "1", "--metrics-file", path(), "k", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return holdfast({"lock", "show", "k"}).code == 0; }));
  EXPECT_EQ(holdfast({"lock", "break", "k", "--reason", "a test"}).code, 0);
  EXPECT_EQ(running->wait().code, 79);
  EXPECT_EQ(value("holdfast_run_last_lock_lost"), 1);
  EXPECT_EQ(value("holdfast_run_last_exit_code"), 79);
  EXPECT_EQ(value("holdfast_run_last_success_timestamp_seconds"), 0);
  EXPECT_EQ(runs("lost"), 1);
  EXPECT_EQ(
      page().value("holdfast_lock_losses_total{backend=\"sqlite\",holdfast_job=\"nightly\",reason=\"gone\"}"),
      1);
}

TEST_F(MetricsFiles, AreWrittenWhenTheStoreFailsAndWhenASignalComesFirst) {
  EXPECT_EQ(holdfast({"--url", "sqlite:" + file("no/such/dir.db").string(), "run", "--metrics-file", path(),
                      "k", "--", "true"})
                .code,
            69);
  EXPECT_EQ(value("holdfast_run_last_exit_code"), 69);
  EXPECT_EQ(runs("error"), 1);
  EXPECT_EQ(holdfast({"lock", "acquire", "-n", "k"}).code, 0);
  const auto waiting = start({"run", "--verbose", "--metrics-file", path(), "k", "--", "true"});
  ASSERT_TRUE(eventually([&] { return contents(waiting->err()).find("waiting for") != std::string::npos; }));
  waiting->signal(SIGTERM);
  EXPECT_EQ(waiting->wait().code, 143);
  EXPECT_EQ(runs("interrupted"), 1);
  EXPECT_EQ(runs("error"), 1);
}

TEST_F(MetricsFiles, OfATaskRunAreTheSame) {
  const auto task_run = [&](const char* command) {
    return holdfast({"task", "run", "--metrics-file", path(), "--", command}).code;
  };
  EXPECT_EQ(task_run("true"), 0);
  EXPECT_EQ(task_run("false"), 1);
  EXPECT_EQ(runs("ok"), 1);
  EXPECT_EQ(runs("failed"), 1);
  EXPECT_EQ(value("holdfast_lock_hold_seconds_count", "backend=\"sqlite\","), 2);

  const auto running = start({"task", "run", "--lease", "3", "--metrics-file", path(), "--", "sleep", "60"});
  std::string id;
  ASSERT_TRUE(eventually([&] {
    const auto text = contents(running->err());
    const auto at = text.find("task ");
    if (at == std::string::npos || text.find('\n') == std::string::npos) return false;
    id = text.substr(at + 5, text.find('\n') - at - 5);
    return holdfast({"task", "get", id}).out.find("working") != std::string::npos;
  }));
  EXPECT_EQ(holdfast({"task", "cancel", id}).code, 0);
  EXPECT_EQ(running->wait().code, 80);
  EXPECT_EQ(runs("task-ended"), 1);
  EXPECT_EQ(contents(path()).find(id), std::string::npos) << "no task id is in the metrics";
}

TEST_F(MetricsFiles, ThatCannotBeWrittenAreRefusedBeforeTheCommandStarts) {
  const auto ran = file("ran").string();
  const auto refused = [&](const std::string& where, std::vector<std::string> more = {}) {
    std::vector<std::string> typed{"run", "--metrics-file", where};
    typed.insert(typed.end(), more.begin(), more.end());
    typed.insert(typed.end(), {"k", "--", "touch", ran});
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 64) << where << result.err;
    EXPECT_FALSE(std::filesystem::exists(ran));
    return result.err;
  };
  EXPECT_NE(refused(file("no/such/directory.prom")).find("cannot be written: No such file"),
            std::string::npos);
  EXPECT_NE(refused(file("nightly.txt")).find("must be named NAME.prom"), std::string::npos);
  EXPECT_NE(refused(file(".prom")).find("must be named NAME.prom"), std::string::npos);
  EXPECT_NE(refused("").find("--metrics-file"), std::string::npos);
  std::filesystem::create_directory(file("directory.prom"));
  EXPECT_NE(refused(file("directory.prom")).find("is a directory"), std::string::npos);
  EXPECT_NE(refused(file("two words.prom")).find("--metrics-job"), std::string::npos);
  EXPECT_NE(refused(path(), {"--metrics-job", "a\"b"}).find("is not a name"), std::string::npos);
  EXPECT_NE(refused(path(), {"--metrics-job", std::string(65, 'x')}).find("is not a name"),
            std::string::npos);
  EXPECT_EQ(holdfast({"run", "--metrics-job", "x", "k", "--", "true"}).code, 64);
  EXPECT_EQ(run({"true"}, {"--metrics-job", "other"}).code, 0);
  EXPECT_EQ(page().value("holdfast_run_last_exit_code{holdfast_job=\"other\"}"), 0);
  EXPECT_EQ(left_behind(), std::vector<std::string>());
}

/// The limit on the size of files stands for a full disk: a write fails after some bytes.
TEST_F(MetricsFiles, ThatCannotBeWrittenAtTheEndAreAWarning) {
  std::ofstream(path()) << "the old one\n";
  const auto result =
      holdfast({"--url", "memory:", "run", "--metrics-file", path(), "k", "--", "sh", "-c", "exit 7"},
               {.environment = {}, .input = {}, .before_exec = [] {
                  std::signal(SIGXFSZ, SIG_IGN);
                  const rlimit limit{4096, 4096};
                  setrlimit(RLIMIT_FSIZE, &limit);
                }});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_NE(result.err.find("holdfast: warning: --metrics-file was not written: File too large"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(contents(path()), "the old one\n");
  EXPECT_EQ(left_behind(), std::vector<std::string>());
}

/// It has the time of the last success.
TEST_F(MetricsFiles, ThatCannotBeReadAreNotReplaced) {
  EXPECT_EQ(run({"true"}).code, 0);
  std::filesystem::permissions(path(), std::filesystem::perms::none);
  const auto result =
      holdfast({"--url", "memory:", "run", "--metrics-file", path(), "k", "--", "false"},
               {.environment = {}, .input = {}, .before_exec = [] {  // root may read it all the same
                  prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
                  prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
                }});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("was not written: the old file cannot be read: Permission denied"),
            std::string::npos)
      << result.err;
  std::filesystem::permissions(path(), std::filesystem::perms::owner_read);
  EXPECT_EQ(runs("ok"), 1);
  EXPECT_EQ(runs("failed"), 0);
  EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(MetricsFiles, ReplaceALinkAndNotWhatItLeadsTo) {
  const auto target = file("target");
  std::ofstream(target) << "precious\n";
  std::filesystem::create_symlink(target, path());
  EXPECT_EQ(run({"true"}).code, 0);
  EXPECT_EQ(contents(target), "precious\n");
  EXPECT_FALSE(std::filesystem::is_symlink(path()));
  EXPECT_EQ(runs("ok"), 1);
}

TEST_F(MetricsFiles, DoNotWaitForAPipeThatIsInTheirPlace) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(run({"true"}).code, 0);
  EXPECT_EQ(runs("ok"), 1);
}

TEST_F(MetricsFiles, DoNotWaitForAProcessThatKeepsTheDirectoryLocked) {
  const int fd = ::open(directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(run({"true"}).code, 0);
  EXPECT_EQ(runs("ok"), 1);
  ::close(fd);
}

TEST_F(MetricsFiles, WithForeignContentAreReplaced) {
  std::ofstream(path())
      << "# TYPE holdfast_runs_total counter\nholdfast_runs_total{holdfast_job=\"nightly\",result=\"ok\"} "
         "NaN\n\xFF\xFE{{{{\n# TYPE holdfast_run_last_success_timestamp_seconds gauge\n";
  EXPECT_EQ(run({"false"}).code, 1);
  EXPECT_EQ(runs("ok"), 0);
  EXPECT_EQ(runs("failed"), 1);
  EXPECT_EQ(value("holdfast_run_last_success_timestamp_seconds"), 0);
}

TEST_F(MetricsFiles, LoseNoRunOfSeveralAtOnce) {
  std::vector<std::unique_ptr<Program>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(start({"run", "--metrics-file", path(), "k" + std::to_string(i), "--", "true"}));
  }
  for (const auto& one : all) EXPECT_EQ(one->wait().code, 0);
  EXPECT_EQ(runs("ok"), 8);
}

TEST_F(MetricsFiles, OfASidecarAreWrittenFromTheStartAndAtItsEnd) {
  auto process = piped({"--metrics-file", path()});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path()); }));
  EXPECT_TRUE(process.client().result("lock.lock", {{"key", "secret-key"}})["ok"]);
  EXPECT_TRUE(process.client().result("lock.acquire", {{"key", "other"}, {"ttlMs", 1000}})["ok"]);
  process.client().close();
  EXPECT_EQ(process.program().wait().code, 0);
  EXPECT_EQ(value("holdfast_rpc_clients"), 0);
  EXPECT_EQ(value("holdfast_lock_hold_seconds_count", "backend=\"sqlite\","), 1);
  EXPECT_EQ(
      page().value("holdfast_lock_waits_total{backend=\"sqlite\",holdfast_job=\"nightly\",result=\"ok\"}"),
      2);
  EXPECT_EQ(contents(path()).find("secret-key"), std::string::npos);
}

TEST_F(MetricsFiles, OfASidecarAreServedToItsOwnerOverASocket) {
  const auto where = file("metrics.sock").string();
  auto process = piped({"--metrics-listen", "unix:" + where});
  EXPECT_TRUE(process.client().result("lock.lock", {{"key", "secret-key"}})["ok"]);
  const auto answer = http_get(where, "/metrics");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const PrometheusPage seen(answer.body);
  EXPECT_EQ(seen.value("holdfast_rpc_clients"), 1);
  EXPECT_EQ(seen.value("holdfast_locks_held{backend=\"sqlite\"}"), 1);
  EXPECT_EQ(answer.body.find("secret-key"), std::string::npos);
  EXPECT_EQ(http_get(where, "/api/locks").status, 404) << "nothing of the store is served";
  EXPECT_EQ(http_get(where, "/metrics", "Host: evil.example\r\n").status, 421);
  struct stat status{};
  ASSERT_EQ(stat(where.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  process.client().close();
  EXPECT_EQ(process.program().wait().code, 0);
  EXPECT_FALSE(std::filesystem::exists(where));
}

TEST_F(MetricsFiles, OfASidecarNeedATokenOverTcp) {
  const auto token_file = file("token").string();
  auto process = piped({"--metrics-listen", "127.0.0.1:0", "--metrics-token-file", token_file});
  const std::string mark = "metrics on http://127.0.0.1:";
  std::string said;
  ASSERT_TRUE(eventually([&] {
    said = contents(process.program().err());
    return said.find("/metrics", said.find(mark)) != std::string::npos;
  })) << said;
  const auto port = static_cast<std::uint16_t>(std::stoi(said.substr(said.find(mark) + mark.size())));
  const auto token = contents(token_file).substr(0, 64);
  EXPECT_EQ(said.find(token), std::string::npos);
  EXPECT_EQ(http_get(port, "/metrics").status, 401);
  EXPECT_EQ(http_get(port, "/metrics", "Authorization: Bearer " + std::string(64, 'x') + "\r\n").status, 401);
  EXPECT_EQ(http_get(port, "/healthz").status, 200);
  EXPECT_EQ(http_get(port, "/metrics", "Authorization: Bearer " + token + "\r\n").status, 200);
}

TEST_F(MetricsFiles, OfASidecarAreNotServedBeyondTheMachine) {
  const auto refused = [&](const std::vector<std::string>& options) {
    std::vector<std::string> typed{"rpc"};
    typed.insert(typed.end(), options.begin(), options.end());
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 64) << result.err;
    return result.err;
  };
  const auto token_file = file("token").string();
  EXPECT_NE(refused({"--metrics-listen", "0.0.0.0:0", "--metrics-token-file", token_file}).find("loopback"),
            std::string::npos);
  EXPECT_NE(refused({"--metrics-listen", "127.0.0.1:0"}).find("--metrics-token-file"), std::string::npos);
  EXPECT_NE(refused({"--metrics-token-file", token_file}).find("needs --metrics-listen"), std::string::npos);
  std::ofstream(token_file) << std::string(40, 'x') << '\n';
  chmod(token_file.c_str(), 0644);
  EXPECT_NE(refused({"--metrics-listen", "127.0.0.1:0", "--metrics-token-file", token_file})
                .find("--metrics-token-file"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file("locks.db"))) << "refused before the store is opened";
}

}  // namespace
}  // namespace holdfast::test
