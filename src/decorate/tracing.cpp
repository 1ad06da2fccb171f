#include <holdfast/tracing.hpp>
#include <vector>

#include "decorate/owned_occurrence.hpp"
#include "runtime/delivery_queue.hpp"

namespace holdfast {
namespace {

using decorate::OwnedOccurrence;

bool is_loss(Reason reason) noexcept {
  return reason == Reason::unproven || reason == Reason::gone || reason == Reason::max_hold;
}

std::vector<SpanAttribute> attributes_of(const OwnedOccurrence& owned) {
  const auto& what = owned.occurrence;
  std::vector<SpanAttribute> attributes;
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) attributes.emplace_back(name, std::string(value));
  };
  add("holdfast.backend", owned.backend);
  add("holdfast.key_hash", owned.key_hash());
  add("holdfast.lock_id_hash", owned.lock_id_hash());
  if (what.fence) add("holdfast.fence", what.fence->to_string());
  add("holdfast.broken_because", owned.broken_because);
  add("holdfast.holder", owned.holder);
  if (what.attempts > 0) attributes.emplace_back("holdfast.attempts", std::int64_t{what.attempts});
  return attributes;
}

void report(Tracer& tracer, const OwnedOccurrence& owned) {
  const auto& what = owned.occurrence;
  const auto name =
      "holdfast." + std::string(subject_of(what.activity)) + "." + std::string(to_string(what.activity));
  const auto attributes = attributes_of(owned);
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
        queue_(max_queued,
               [tracer = tracer_](const OwnedOccurrence& owned, std::size_t) { report(*tracer, owned); }) {}

  void ended(const Occurrence& occurrence) noexcept override {
    try {
      queue_.push(OwnedOccurrence(occurrence));
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
  runtime::DeliveryQueue<OwnedOccurrence> queue_;
};

}  // namespace

std::shared_ptr<Observer> make_tracing(std::shared_ptr<Tracer> tracer, std::size_t max_queued) {
  if (!tracer) return nullptr;
  return std::make_shared<Tracing>(std::move(tracer), max_queued);
}

}  // namespace holdfast
