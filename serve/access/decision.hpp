#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/access/host_rules.hpp"
#include "serve/access/routes.hpp"
#include "serve/http/request.hpp"

namespace holdfast::serve {

/// What the server allows, as its options say.
struct AccessRules {
  HostRules hosts;
  /// False for a Unix socket without a proxy: its file mode decides who connects.
  bool token_needed = true;
  bool allow_actions = false;
  std::span<const Route> served = routes();
};

/// What the request presented, compared with the token and the sessions.
struct Credentials {
  bool bearer = false;   ///< the token
  bool session = false;  ///< the cookie of a session
};

/// What to do with a request.
struct Decision {
  const Route* route = nullptr;  ///< null if it is refused
  /// With `Need::login_page`: whether to show the page itself.
  bool authorised = false;
  int status = 200;              ///< of the refusal
  std::string_view code = {};    ///< of the refusal, for programs
  std::string_view reason = {};  ///< of the refusal, for people
  std::string_view allow = {};   ///< the method that the path has, if it is another
};

/// Decides about a request; a pure function. The checks come in this order: host, path and method, origin,
/// token, permission. A foreign page learns nothing but that it is refused.
[[nodiscard]] Decision decide(const Request& request, const Credentials& credentials,
                              const AccessRules& rules);

/// Returns the token of a field `Authorization: Bearer TOKEN`; empty if it has another form.
[[nodiscard]] std::string_view bearer_in(std::string_view authorization) noexcept;

/// Returns the name of the session's cookie. Cookies are sent to all ports of a host, so the port is part of
/// the name: two servers of one machine do not end each other's sessions.
[[nodiscard]] std::string cookie_name(const HostRules& rules);

}  // namespace holdfast::serve
