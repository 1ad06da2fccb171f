#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::serve {

/// What a request for a route must prove.
enum class Need : std::uint8_t {
  nothing,      ///< open to every client
  login_page,   ///< with a session the page, else the page that asks for the token
  token,        ///< the token as a bearer, or a session
  action,       ///< the same, and changes the store
  session_end,  ///< only a request that is not cross-site
};

enum class Endpoint : std::uint8_t {
  health,
  readiness,
  metrics,
  openapi,
  page,
  style,
  icon,
  login_script,
  page_script,
  login,
  logout,
  about,
  locks,
  tasks,
  task,
  queues,
  queue,
  doctor,
  events,
  break_lock,
  cancel_task,
  remove_task,
};

struct Route {
  std::string_view method;
  std::string_view path;
  Need need = Need::token;
  Endpoint endpoint = Endpoint::health;
  /// Whether it answers requests of other sites' links: a bookmark or a link in a wiki.
  bool from_other_sites = false;
};

/// All routes of `holdfast serve`.
[[nodiscard]] std::span<const Route> routes() noexcept;
/// Those of a process that serves its metrics only.
[[nodiscard]] std::span<const Route> metrics_routes() noexcept;

}  // namespace holdfast::serve
