#include "serve/site/metrics_site.hpp"

#include <exception>

#include "serve/access/secrets.hpp"
#include "serve/site/responses.hpp"

namespace holdfast::serve {

Response MetricsSite::response_to(const Request& request) const {
  Credentials credentials;
  if (!settings_.token.empty() && request.authorization) {
    credentials.bearer = equal_secrets(bearer_in(*request.authorization), settings_.token);
  }
  const auto decision = decide(request, credentials, settings_.access);
  if (decision.route == nullptr) return refusal_response(decision);
  if (decision.route->endpoint == Endpoint::health) return text_response("ok\n");
  return metrics_response(settings_.page());
}

asio::awaitable<RequestHandler::Answer> MetricsSite::answer(Request request, std::string) {
  Answer answer;
  try {
    answer.response = response_to(request);
  } catch (const std::exception& error) {
    answer.response = error_response(500, "Internal", error.what());
  }
  co_return answer;
}

}  // namespace holdfast::serve
