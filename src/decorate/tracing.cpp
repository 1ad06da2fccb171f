#include <holdfast/tracing.hpp>
#include <vector>

#include "decorate/noted.hpp"
#include "runtime/courier.hpp"

namespace holdfast {
namespace {

using decorate::Noted;

bool is_loss(Reason reason) noexcept {
  return reason == Reason::unproven || reason == Reason::gone || reason == Reason::max_hold;
}

std::vector<SpanAttribute> attributes_of(const Noted& noted) {
  const auto& what = noted.occurrence;
  std::vector<SpanAttribute> attributes;
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) attributes.emplace_back(name, std::string(value));
  };
  add("holdfast.backend", noted.backend);
  add("holdfast.key_hash", noted.key_hash());
  add("holdfast.lock_id_hash", noted.lock_id_hash());
  if (what.fence) add("holdfast.fence", what.fence->to_string());
  add("holdfast.broken_because", noted.broken_because);
  add("holdfast.holder", noted.holder);
  if (what.attempts > 0) attributes.emplace_back("holdfast.attempts", std::int64_t{what.attempts});
  return attributes;
}

void tell(Tracer& tracer, const Noted& noted) {
  const auto& what = noted.occurrence;
  const auto name =
      "holdfast." + std::string(subject_of(what.activity)) + "." + std::string(to_string(what.activity));
  const auto attributes = attributes_of(noted);
  const decorate::WallTime clocks;
  const auto time = [&](BootTime at) { return SpanTime{clocks.of(at), clocks.steady(at)}; };
  const auto span = tracer.start(
      {.name = name, .at = time(what.started), .parent = what.context, .attributes = attributes});
  if (!span) return;
  span->set_attribute("holdfast.result", std::string(what.ok() ? "ok" : "fail"));
  if (what.reason != Reason::none)
    span->set_attribute("holdfast.reason", std::string(to_string(what.reason)));
  if (what.error) span->set_attribute("error.type", std::string(to_string(*what.error)));
  span->end(what.error || is_loss(what.reason) ? SpanStatus::error : SpanStatus::ok, time(what.ended));
}

class Tracing final : public Observer {
 public:
  Tracing(std::shared_ptr<Tracer> tracer, std::size_t max_queued)
      : tracer_(std::move(tracer)),
        courier_(max_queued, [tracer = tracer_](const Noted& noted, std::size_t) { tell(*tracer, noted); }) {}

  void ended(const Occurrence& occurrence) noexcept override {
    try {
      courier_.hand_over(Noted(occurrence));
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a copy; the operation goes on
    }
  }

  TraceContext context() noexcept override {
    try {
      return tracer_->context();
    } catch (...) {
      return {};
    }
  }

 private:
  const std::shared_ptr<Tracer> tracer_;
  runtime::Courier<Noted> courier_;
};

}  // namespace

std::shared_ptr<Observer> make_tracing(std::shared_ptr<Tracer> tracer, std::size_t max_queued) {
  if (!tracer) return nullptr;
  return std::make_shared<Tracing>(std::move(tracer), max_queued);
}

}  // namespace holdfast
