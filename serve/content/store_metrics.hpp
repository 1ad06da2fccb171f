#pragma once

#include <string>

#include "view/snapshot.hpp"

namespace holdfast::serve {

/// Numbers of this server.
struct ServerFigures {
  std::size_t connections = 0;
  std::size_t event_streams = 0;
};

/// Returns the gauges of a store in the Prometheus text format, version 0.0.4. Labels are the engine and the
/// status of tasks: never a key, an owner or any other text of a user.
[[nodiscard]] std::string store_metrics(const view::Snapshot& snapshot, const ServerFigures& figures,
                                        BootTime now);

}  // namespace holdfast::serve
