#include "serve/access/decision.hpp"

#include <algorithm>

namespace holdfast::serve {
namespace {

Decision refused(int status, std::string_view code, std::string_view reason) {
  return {.status = status, .code = code, .reason = reason};
}

bool is_json(const Request& request) {
  if (!request.content_type) return false;
  const auto type = std::string_view(*request.content_type);
  return type.substr(0, type.find(';')) == "application/json";
}

/// A browser says from where a request comes; other clients send neither field.
bool is_cross_site(const Request& request, const Route& route, const HostRules& rules) {
  if (request.origin && !rules.is_same_origin(*request.origin, *request.host)) return true;
  if (!request.fetch_site || route.from_other_sites) return false;
  return *request.fetch_site != "same-origin" && *request.fetch_site != "none";
}

}  // namespace

Decision decide(const Request& request, const Credentials& credentials, const AccessRules& rules) {
  if (request.ambiguous || !request.host) {
    return refused(
        400, "BadRequest",
        "the request needs exactly one Host, the same as in its target, and one of each field at most");
  }
  const auto all = rules.served;
  const auto route = std::ranges::find_if(
      all, [&](const Route& one) { return one.path == request.path && one.method == request.method; });
  // A probe may use any name for /healthz, which has nothing to hide.
  const bool is_health = route != all.end() && route->endpoint == Endpoint::health;
  if (!is_health && !rules.hosts.allows_host(*request.host)) {
    return refused(421, "ForeignHost", "this server has another name. Pass --host NAME to allow this one.");
  }
  if (route == all.end()) {
    const auto other = std::ranges::find(all, request.path, &Route::path);
    if (other == all.end()) return refused(404, "NotFound", "this path does not exist");
    auto decision = refused(405, "WrongMethod", "this path needs another method; see the field Allow");
    decision.allow = other->method == "GET" ? "GET, HEAD" : other->method;
    return decision;
  }
  if (is_cross_site(request, *route, rules.hosts)) {
    return refused(403, "ForeignOrigin", "the request comes from a page of another site");
  }
  const bool trusted = !rules.token_needed || credentials.bearer || credentials.session;
  const bool changes = route->method != "GET";
  // A browser sends Origin with every POST. With a bearer there is none that could be misused.
  if (changes && credentials.session && !credentials.bearer && !request.origin) {
    return refused(403, "ForeignOrigin", "a request with a session needs its Origin");
  }
  if (!trusted && (route->need == Need::token || route->need == Need::action)) {
    return refused(401, "NoToken",
                   request.authorization ? "the token is wrong; send the one in the file of --token-file"
                                         : "log in, or send the token as Authorization: Bearer");
  }
  if (route->need == Need::action && !rules.allow_actions) {
    return refused(403, "ActionsNotAllowed", "start holdfast serve with --allow-actions to allow this");
  }
  // No form of another site can send this type without asking first, and that is never answered.
  if (changes && !is_json(request)) {
    return refused(415, "WrongContentType", "the body must be application/json");
  }
  return {.route = &*route, .authorised = trusted};
}

std::string_view bearer_in(std::string_view authorization) noexcept {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size()) return {};
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    // Names of schemes have no case (RFC 9110).
    const char letter = authorization[i];
    if ((letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter) != scheme[i]) return {};
  }
  return authorization.substr(scheme.size());
}

std::string cookie_name(const HostRules& rules) {
  // Browsers accept the first form only from a secure page, for one host and all of its paths.
  return (rules.tls ? "__Host-holdfast-" : "holdfast-") + std::to_string(rules.listen.port);
}

}  // namespace holdfast::serve
