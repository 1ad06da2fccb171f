#pragma once

#include <string>

#include "serve/access/decision.hpp"
#include "serve/http/response.hpp"

namespace holdfast::serve {

[[nodiscard]] inline Response text_response(std::string body, int status = 200) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

/// A page in the Prometheus text format.
[[nodiscard]] inline Response metrics_response(std::string page) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(page)};
}

/// For a request that is refused.
[[nodiscard]] inline Response refusal_response(const Decision& decision) {
  auto response = error_response(decision.status, decision.code, decision.reason);
  if (decision.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (!decision.allow.empty()) response.fields.emplace_back("Allow", std::string(decision.allow));
  return response;
}

}  // namespace holdfast::serve
