#include "support/instrumented.hpp"

#include <gtest/gtest.h>

#include <holdfast/instruments.hpp>

#include "support/prometheus_page.hpp"

namespace holdfast::test {
namespace {

class PlainTracer final : public Tracer {
  class PlainSpan final : public Span {
    void set_attribute(std::string_view, const AttributeValue&) override {}
    void end(SpanStatus, const SpanTime&) override {}
  };
  TraceContext context() override { return std::make_shared<int>(1); }
  std::unique_ptr<Span> start(const SpanStart&) override { return std::make_unique<PlainSpan>(); }
};

/// Metrics whose page is looked at when the test is over.
class CheckedMetrics final : public Observer {
 public:
  ~CheckedMetrics() override {
    EXPECT_NO_THROW(PrometheusPage(metrics->prometheus())) << metrics->prometheus();
  }
  void begun(Activity activity, std::string_view backend) noexcept override {
    metrics->begun(activity, backend);
  }
  void ended(const Occurrence& occurrence) noexcept override { metrics->ended(occurrence); }

  const std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

}  // namespace

std::shared_ptr<Observer> all_instruments() {
  return observer_of({.telemetry = {.on_event = [](const TelemetryEvent&) {}, .include_raw = true},
                      .tracer = std::make_shared<PlainTracer>(),
                      .observer = std::make_shared<CheckedMetrics>()});
}

}  // namespace holdfast::test
