// The task that the benchmarks of queues add, and its result: those of queue_peers.mjs.

#pragma once

#include <holdfast/holdfast.hpp>

namespace bench {

inline const holdfast::Json& result() {
  static const auto json = holdfast::Json::parse(R"({"sent":true})").value_or_throw();
  return json;
}

inline holdfast::NewQueueTask new_task() {
  static const auto payload =
      holdfast::Json::parse(
          R"({"to":"someone@example.org","subject":"Welcome","template":7,"tags":["a","b"]})")
          .value_or_throw();
  return {.method = "mail", .variables = payload};
}

}  // namespace bench
