#include "serve/access/host_rules.hpp"

#include <algorithm>

namespace holdfast::serve {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

struct HostAndPort {
  std::string host;  ///< an address as ip_address() writes it, or a name
  std::string port;  ///< empty if there is none
};

HostAndPort split(std::string_view text) {
  auto lower = in_lower_case(text);
  if (lower.starts_with('[')) {
    const auto end = lower.find(']');
    if (end == std::string::npos) return {};
    const auto rest = lower.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return {};
    auto host = lower.substr(1, end - 1);
    return {ip_address(host).value_or(host), rest.empty() ? "" : rest.substr(1)};
  }
  const auto colon = lower.find(':');
  if (colon == std::string::npos) return {std::move(lower), ""};
  return {lower.substr(0, colon), lower.substr(colon + 1)};
}

}  // namespace

bool HostRules::allows_host(std::string_view host) const {
  const auto asked = split(host);
  if (asked.host.empty()) return false;
  for (const auto& name : names) {
    const auto allowed = split(name);
    if (allowed.host == asked.host && (allowed.port.empty() || allowed.port == asked.port)) return true;
  }
  // The port of a proxy is another one. A Unix socket has none.
  if (!listen.is_unix() && !behind_proxy) {
    const std::string default_port = tls ? "443" : "80";
    if ((asked.port.empty() ? default_port : asked.port) != std::to_string(listen.port)) return false;
  }
  if (asked.host == "localhost") return listen.is_loopback() || listen.is_wildcard();
  if (!ip_address(asked.host)) return false;
  if (listen.is_loopback()) return is_loopback_address(asked.host);
  return listen.is_wildcard() || asked.host == listen.host;
}

bool HostRules::is_same_origin(std::string_view origin, std::string_view host) const {
  const auto own = in_lower_case(host);
  const auto given = in_lower_case(origin);
  const bool may_be_plain = !tls || behind_proxy;
  const bool may_be_secure = tls || behind_proxy;
  return (may_be_plain && given == "http://" + own) || (may_be_secure && given == "https://" + own);
}

}  // namespace holdfast::serve
