#pragma once

#include <functional>
#include <string>

#include "serve/access/decision.hpp"
#include "serve/site/request_handler.hpp"

namespace holdfast::serve {

/// Serves the metrics of a process, and /healthz: nothing of its store.
class MetricsSite final : public RequestHandler {
 public:
  struct Settings {
    AccessRules access;
    /// Empty if none is needed.
    std::string token = {};
    /// Returns the page in the Prometheus text format; called on the listener's thread.
    std::function<std::string()> page = {};
  };
  explicit MetricsSite(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] asio::awaitable<Answer> answer(Request request, std::string peer) override;

 private:
  [[nodiscard]] Response response_to(const Request& request) const;

  Settings settings_;
};

}  // namespace holdfast::serve
