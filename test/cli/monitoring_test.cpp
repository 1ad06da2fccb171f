// The dashboard and the alert rules of docs/operating/, against what programs really write.

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "http_get.hpp"
#include "queries.hpp"
#include "rpc_client.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using Problems = std::vector<std::string>;

class Monitoring : public RpcTest {
 protected:
  /// Uses the store, and takes the pages of a server, a sidecar and two jobs.
  void SetUp() override {
    const auto metrics = file("nightly.prom").string();
    EXPECT_EQ(holdfast({"run", "--metrics-file", metrics, "k", "--", "true"}).code, 0);
    known.add(PrometheusPage(contents(metrics)));
    EXPECT_EQ(holdfast({"task", "run", "--metrics-file", metrics, "--", "true"}).code, 0);
    known.add(PrometheusPage(contents(metrics)));
    EXPECT_EQ(holdfast({"task", "add", "render"}).code, 0);

    const auto sidecar_socket = file("metrics.sock").string();
    auto sidecar = piped({"--metrics-listen", "unix:" + sidecar_socket});
    EXPECT_TRUE(sidecar.client().result("lock.lock", {{"key", "k"}})["ok"]);
    EXPECT_EQ(sidecar.client().error("lock.lock", {{"key", "k"}, {"waitMs", 1000}})["data"]["code"],
              "AcquisitionTimeout");
    known.add(PrometheusPage(http_get(sidecar_socket, "/metrics").body));

    const auto socket = file("serve.sock").string();
    const auto server = start({"serve", "--listen", "unix:" + socket});
    EXPECT_TRUE(eventually([&] {
      const auto page = http_get(socket, "/metrics").body;
      if (page.find("holdfast_store_waiters") == std::string::npos ||
          page.find("holdfast_queue_tasks") == std::string::npos) {
        return false;
      }
      known.add(PrometheusPage(page));
      return true;
    }));
  }
  static std::string document(const std::string& name) {
    return contents(source_dir() + "/docs/operating/" + name);
  }

  KnownSeries known;
};

/// `visit(member)` for every object in the document.
void for_each_object(const json& value, const std::function<void(const json&)>& visit) {
  if (value.is_object()) visit(value);
  if (!value.is_structured()) return;
  for (const auto& one : value) for_each_object(one, visit);
}

TEST_F(Monitoring, EveryQueryOfTheDashboardFindsRealSeries) {
  const auto dashboard = json::parse(document("dashboard.json"));
  int queries = 0;
  std::set<int> ids;
  for_each_object(dashboard, [&](const json& object) {
    if (object.contains("gridPos")) {
      EXPECT_TRUE(ids.insert(object.at("id").get<int>()).second) << "panels have ids of their own";
    }
    if (!object.contains("expr")) return;
    ++queries;
    const std::string expression = object.at("expr");
    EXPECT_EQ(known.problems_of(expression), Problems()) << expression;
    EXPECT_EQ(known.problems_of_legend(object.value("legendFormat", "")), Problems()) << object;
  });
  EXPECT_GT(queries, 25);
}

TEST_F(Monitoring, EveryAlertFindsRealSeriesAndIsExplained) {
  const auto rules = document("alerts.yml");
  const auto explained = document("monitoring.md");
  static const std::regex alert(R"(- alert: (\w+)\n(?: +#[^\n]*\n)* +expr: ([^\n]+)\n)");
  std::size_t alerts = 0;
  for (std::sregex_iterator at(rules.begin(), rules.end(), alert), end; at != end; ++at) {
    ++alerts;
    EXPECT_EQ(known.problems_of((*at)[2].str()), Problems()) << (*at)[2];
    EXPECT_NE(explained.find("`" + (*at)[1].str() + "`"), std::string::npos) << (*at)[1];
  }
  std::size_t written = 0;
  for (auto at = rules.find("- alert:"); at != std::string::npos; at = rules.find("- alert:", at + 1))
    ++written;
  EXPECT_EQ(alerts, written) << "one that this test does not read";
  EXPECT_GT(alerts, 10U);
  static const std::regex used(R"(\$labels\.(\w+))");
  for (std::sregex_iterator at(rules.begin(), rules.end(), used), end; at != end; ++at) {
    EXPECT_EQ(known.problems_of_legend("{{" + (*at)[1].str() + "}}"), Problems());
  }
}

/// All machines but one are refused each time. What the rules do is tested by
/// test/package/alert_rules_test.yml.
TEST_F(Monitoring, RunsThatDoNotHappenAreJudgedOverAllMachines) {
  const auto rules = document("alerts.yml");
  static const std::regex rule(
      R"(- alert: HoldfastJob(Overdue|NeverRuns)\n(?: +#[^\n]*\n)* +expr: ([^\n]+)\n)");
  std::size_t found = 0;
  for (std::sregex_iterator at(rules.begin(), rules.end(), rule), end; at != end; ++at, ++found) {
    const auto expression = (*at)[2].str();
    EXPECT_EQ(expression.find("instance"), std::string::npos) << expression;
    EXPECT_NE(expression.find(" by (holdfast_job) (holdfast_run_last_success") == std::string::npos,
              expression.find("sum by (holdfast_job) (increase") == std::string::npos)
        << expression;
  }
  EXPECT_EQ(found, 2U);
}

TEST_F(Monitoring, AQueryThatFindsNothingIsNoticed) {
  for (const char* wrong :
       {"holdfast_no_such_metric", "sum by (nothing) (holdfast_store_locks)",
        "rate(holdfast_runs_total{result=\"no\"}[5m])", "holdfast_store_locks{result=\"ok\"}",
        "sum(holdfast_store_lock)", "1 > 0", "holdfast_store_locks @ 5", "average(holdfast_store_locks)"}) {
    EXPECT_NE(known.problems_of(wrong), Problems()) << wrong;
  }
  EXPECT_NE(known.problems_of_legend("{{nothing}}"), Problems());
}

}  // namespace
}  // namespace holdfast::test
