#pragma once

#include <holdfast/observer.hpp>
#include <memory>

namespace holdfast::test {

/// Everything there is that observes, at once: metrics, telemetry with raw ids, spans with a parent. For
/// suites that show that a backend does the same with all of it around.
[[nodiscard]] std::shared_ptr<Observer> all_instruments();

}  // namespace holdfast::test
