#include <holdfast/instruments.hpp>

namespace holdfast {

std::shared_ptr<Observer> observer_of(const Instruments& instruments) {
  std::vector<std::shared_ptr<Observer>> all{instruments.metrics, instruments.observer};
  if (instruments.telemetry.on_event) {
    all.push_back(std::make_shared<Telemetry>(instruments.telemetry, instruments.metrics));
  }
  if (instruments.tracer) all.push_back(make_tracing(instruments.tracer));
  return observers(std::move(all));
}

}  // namespace holdfast
