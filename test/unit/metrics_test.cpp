#include <gtest/gtest.h>

#include <holdfast/memory.hpp>
#include <holdfast/metrics.hpp>
#include <thread>

#include "support/calls.hpp"
#include "support/prometheus_page.hpp"
#include "support/storage_calls.hpp"

namespace holdfast {
namespace {

using namespace test;

PrometheusPage page(const Metrics& metrics) {
  return PrometheusPage(metrics.prometheus());
}

Occurrence occurrence(Activity activity, std::chrono::nanoseconds took = 1ms,
                      std::string_view backend = "memory") {
  return {.activity = activity, .backend = backend, .started = BootTime{}, .ended = BootTime{} + took};
}

/// A label set of the memory engine's operations.
std::string of(std::string_view operation, std::string_view more, std::string_view subject = "lock") {
  return "{backend=\"memory\",operation=\"" + std::string(operation) + "\"," + std::string(more) +
         ",subject=\"" + std::string(subject) + "\"}";
}

TEST(Metrics, CountOperationsByResultAndFailuresByReason) {
  const auto metrics = std::make_shared<Metrics>();
  const auto locks = with_observer(make_memory_lock_backend(), metrics);
  const auto id = LockId::generate();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(acquire(*locks, id, "k"));
    EXPECT_FALSE(acquire(*locks, LockId::generate(), "k"));
    EXPECT_FALSE(release(*locks, id, "k"));
  }
  EXPECT_TRUE(release(*locks, id, "k"));
  const auto seen = page(*metrics);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("acquire", "result=\"ok\"")), 3);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("acquire", "result=\"fail\"")), 3);
  EXPECT_EQ(seen.value("holdfast_operation_failures_total" + of("acquire", "reason=\"locked\"")), 3);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("release", "result=\"ok\"")), 3);
  EXPECT_EQ(seen.value("holdfast_operation_failures_total" + of("release", "reason=\"not-found\"")), 1);
  // Known before they count, so that a rate sees the first.
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("extend", "result=\"fail\"")), 0);
  EXPECT_EQ(seen.value("holdfast_operation_duration_seconds_count"
                       "{backend=\"memory\",operation=\"acquire\",subject=\"lock\"}"),
            6);
}

TEST(Metrics, CountOperationsOfTasksApart) {
  const auto metrics = std::make_shared<Metrics>();
  const auto storage = with_observer(make_memory_storage_backend(), metrics);
  create(*storage, "me:a");
  EXPECT_FALSE(get(*storage, "me:b"));
  const auto seen = page(*metrics);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("create", "result=\"ok\"", "task")), 1);
  EXPECT_EQ(seen.value("holdfast_operation_failures_total" + of("get", "reason=\"not-found\"", "task")), 1);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("list", "result=\"ok\"", "task")), 0);
  EXPECT_EQ(seen.value("holdfast_operations_total" + of("list", "result=\"ok\"", "lock")), 0);
}

TEST(Metrics, CountWritesThatAFenceRefusedFromZero) {
  Metrics metrics;
  const std::string name = "holdfast_task_writes_refused_total{backend=\"memory\",reason=";
  metrics.ended(occurrence(Activity::put_record));
  EXPECT_EQ(page(metrics).value(name + "\"stale-fence\"}"), 0);
  EXPECT_EQ(page(metrics).value(name + "\"wrong-lock\"}"), 0);
  for (const auto activity : {Activity::put_record, Activity::remove_record}) {
    auto refused = occurrence(activity);
    refused.reason = Reason::stale_fence;
    metrics.ended(refused);
  }
  EXPECT_EQ(page(metrics).value(name + "\"stale-fence\"}"), 2);
  EXPECT_EQ(page(metrics).value(name + "\"wrong-lock\"}"), 0);
}

TEST(Metrics, CountErrorsByTheirCode) {
  Metrics metrics;
  auto failed = occurrence(Activity::extend);
  failed.error = ErrorCode::NetworkTimeout;
  metrics.ended(failed);
  EXPECT_EQ(
      page(metrics).value("holdfast_operation_failures_total" + of("extend", "reason=\"NetworkTimeout\"")),
      1);
}

TEST(Metrics, KnowWhatIsUnderWay) {
  Metrics metrics;
  metrics.begun(Activity::acquire, "memory");
  metrics.begun(Activity::extend, "memory");
  metrics.begun(Activity::put_record, "memory");
  metrics.begun(Activity::hold, "memory");
  metrics.begun(Activity::wait, "memory");
  metrics.ended(occurrence(Activity::extend));
  auto seen = page(metrics);
  EXPECT_EQ(seen.value("holdfast_operations_in_flight{backend=\"memory\",subject=\"lock\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_operations_in_flight{backend=\"memory\",subject=\"task\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_locks_held{backend=\"memory\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_locks_waiting{backend=\"memory\"}"), 1);
  metrics.ended(occurrence(Activity::hold));
  EXPECT_EQ(page(metrics).value("holdfast_locks_held{backend=\"memory\"}"), 0);
}

TEST(Metrics, PutTimesIntoBuckets) {
  Metrics metrics;
  metrics.ended(occurrence(Activity::wait, 1ms));  // a bound belongs to its bucket
  metrics.ended(occurrence(Activity::wait, 200ms));
  metrics.ended(occurrence(Activity::wait, 24h));
  const auto seen = page(metrics);
  const std::string wait = "holdfast_lock_wait_seconds";
  EXPECT_EQ(seen.value(wait + "_bucket{backend=\"memory\",le=\"0.001\"}"), 1);
  EXPECT_EQ(seen.value(wait + "_bucket{backend=\"memory\",le=\"0.1\"}"), 1);
  EXPECT_EQ(seen.value(wait + "_bucket{backend=\"memory\",le=\"0.25\"}"), 2);
  EXPECT_EQ(seen.value(wait + "_bucket{backend=\"memory\",le=\"7200\"}"), 2);
  EXPECT_EQ(seen.value(wait + "_bucket{backend=\"memory\",le=\"+Inf\"}"), 3);
  EXPECT_DOUBLE_EQ(seen.value(wait + "_sum{backend=\"memory\"}"), 86400.201);
}

TEST(Metrics, TellLossesRenewalsAndReconnects) {
  Metrics metrics;
  auto lost = occurrence(Activity::hold, 10s);
  lost.reason = Reason::unproven;
  metrics.ended(lost);
  metrics.ended(occurrence(Activity::renew));
  auto unanswered = occurrence(Activity::renew);
  unanswered.error = ErrorCode::ServiceUnavailable;
  metrics.ended(unanswered);
  metrics.ended(occurrence(Activity::reconnect));
  for (int i = 0; i < 2; ++i) metrics.ended(occurrence(Activity::fence_regression));
  for (int i = 0; i < 3; ++i) metrics.ended(occurrence(Activity::clock_jump));
  for (int i = 0; i < 4; ++i) metrics.ended(occurrence(Activity::unusable_epoch));
  metrics.count_dropped_events(7);
  const auto seen = page(metrics);
  EXPECT_EQ(seen.value("holdfast_lock_losses_total{backend=\"memory\",reason=\"unproven\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_lock_losses_total{backend=\"memory\",reason=\"gone\"}"), 0);
  EXPECT_EQ(seen.value("holdfast_lock_hold_seconds_count{backend=\"memory\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_lock_renewals_total{backend=\"memory\",result=\"ok\"}"), 1);
  EXPECT_EQ(
      seen.value("holdfast_lock_renewal_failures_total{backend=\"memory\",reason=\"ServiceUnavailable\"}"),
      1);
  EXPECT_EQ(seen.value("holdfast_reconnects_total{backend=\"memory\",result=\"ok\"}"), 1);
  EXPECT_EQ(seen.value("holdfast_fence_regressions_total{backend=\"memory\"}"), 2);
  EXPECT_EQ(seen.value("holdfast_unusable_epochs_total{backend=\"memory\"}"), 4);
  EXPECT_EQ(seen.value("holdfast_clock_jumps_total{backend=\"memory\"}"), 3);
  EXPECT_EQ(seen.value("holdfast_telemetry_events_dropped_total"), 7);
}

TEST(Metrics, OfNothingAreAPageAsWell) {
  const Metrics metrics;
  const auto seen = page(metrics);
  EXPECT_EQ(seen.types().at("holdfast_operations_total"), "counter");
  EXPECT_EQ(seen.types().at("holdfast_operations_in_flight"), "gauge");
  EXPECT_EQ(seen.types().at("holdfast_lock_hold_seconds"), "histogram");
  EXPECT_EQ(seen.value("holdfast_telemetry_events_dropped_total"), 0);
}

TEST(Metrics, AnEnginesNameIsEscaped) {
  Metrics metrics;
  const std::string name = "a \"quoted\\\" name\nwith, {all} of it";
  metrics.ended(occurrence(Activity::hold, 1s, name));
  EXPECT_NE(metrics.prometheus().find("backend=\"a \\\"quoted\\\\\\\" name\\nwith, {all} of it\""),
            std::string::npos);
  EXPECT_EQ(page(metrics).value("holdfast_locks_held{backend=\"" + name + "\"}"), 0);
}

TEST(Metrics, ManyEnginesAreOneAfterTheEighth) {
  Metrics metrics;
  for (int i = 0; i < 20; ++i) {
    metrics.ended(occurrence(Activity::reconnect, 1ms, "engine-" + std::to_string(i)));
  }
  const auto seen = page(metrics);
  EXPECT_EQ(seen.value("holdfast_reconnects_total{backend=\"engine-7\",result=\"ok\"}"), 1);
  EXPECT_FALSE(seen.has("holdfast_reconnects_total{backend=\"engine-8\",result=\"ok\"}"));
  EXPECT_EQ(seen.value("holdfast_reconnects_total{backend=\"other\",result=\"ok\"}"), 12);
}

TEST(Metrics, NothingIsLostWhereThreadsCountAtOnce) {
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&metrics, t] {
        for (int i = 0; i < 1000; ++i) {
          metrics.begun(Activity::acquire, i % 2 == 0 ? "even" : "odd");
          metrics.ended(occurrence(Activity::acquire, 1us, i % 2 == 0 ? "even" : "odd"));
          if (t == 0 && i % 100 == 0) (void)page(metrics);
        }
      });
    }
  }
  const auto seen = page(metrics);
  for (const std::string name : {"even", "odd"}) {
    const auto backend = "{backend=\"" + name + "\",";
    EXPECT_EQ(seen.value("holdfast_operations_total" + backend +
                         "operation=\"acquire\",result=\"ok\",subject=\"lock\"}"),
              2000);
    EXPECT_EQ(seen.value("holdfast_operations_in_flight" + backend + "subject=\"lock\"}"), 0);
  }
}

TEST(PrometheusPages, ThatAreWrongAreRefused) {
  const auto refused = [](std::string_view text) {
    EXPECT_THROW(PrometheusPage{text}, std::runtime_error) << text;
  };
  const std::string head = "# HELP a_total Help.\n# TYPE a_total counter\n";
  EXPECT_EQ(PrometheusPage(head + "a_total{x=\"1\"} 2\n").value("a_total{x=\"1\"}"), 2);
  refused("a_total 1\n");
  refused(head + "a_total 1");
  refused(head + "b_total 1\n");
  refused(head + "a_total 1\na_total 2\n");
  refused(head + "a_total -1\n");
  refused(head + "a_total{x=\"\\x\"} 1\n");
  refused(head + "a_total{x=\"1\",x=\"2\"} 1\n");
  refused(head + head);
  refused("# HELP a Help.\n# TYPE a counter\n");
  const std::string histogram = "# HELP h Help.\n# TYPE h histogram\n";
  EXPECT_NO_THROW(PrometheusPage(histogram + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n"));
  refused(histogram + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n");
  refused(histogram + "h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n");
  refused(histogram + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n");
}

}  // namespace
}  // namespace holdfast
