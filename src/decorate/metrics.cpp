#include <holdfast/metrics.hpp>

#include "decorate/counts.hpp"

namespace holdfast {

class Metrics::Impl {
 public:
  decorate::Engines engines;
  decorate::Counter dropped_events;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::begun(Activity activity, std::string_view backend) noexcept {
  impl_->engines.of(backend).activities[static_cast<std::size_t>(activity)].begun.add();
}

void Metrics::ended(const Occurrence& occurrence) noexcept {
  auto& engine = impl_->engines.of(occurrence.backend);
  auto& counts = engine.activities[static_cast<std::size_t>(occurrence.activity)];
  if (occurrence.error) {
    counts.failed[static_cast<std::size_t>(*occurrence.error)].add();
  } else if (occurrence.reason != Reason::none) {
    counts.refused[static_cast<std::size_t>(occurrence.reason)].add();
  } else {
    counts.ok.add();
  }
  counts.time.record(occurrence.ended - occurrence.started, decorate::bounds_of(occurrence.activity));
}

void Metrics::count_dropped_events(std::uint64_t count) noexcept {
  impl_->dropped_events.add(count);
}

std::string Metrics::prometheus() const {
  return decorate::prometheus(impl_->engines, impl_->dropped_events.value());
}

}  // namespace holdfast
