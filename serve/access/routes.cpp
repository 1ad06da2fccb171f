#include "serve/access/routes.hpp"

#include <array>

namespace holdfast::serve {
namespace {

constexpr std::array all_routes{
    Route{"GET", "/healthz", Need::nothing, Endpoint::health, true},
    Route{"GET", "/readyz", Need::token, Endpoint::readiness},
    Route{"GET", "/metrics", Need::token, Endpoint::metrics},
    Route{"GET", "/openapi.json", Need::token, Endpoint::openapi},
    Route{"GET", "/", Need::login_page, Endpoint::page, true},
    Route{"GET", "/assets/style.css", Need::nothing, Endpoint::style},
    Route{"GET", "/assets/icon.svg", Need::nothing, Endpoint::icon},
    Route{"GET", "/assets/login.js", Need::nothing, Endpoint::login_script},
    Route{"GET", "/assets/page.js", Need::token, Endpoint::page_script},
    Route{"POST", "/login", Need::nothing, Endpoint::login},
    Route{"POST", "/logout", Need::session_end, Endpoint::logout},
    Route{"GET", "/api/about", Need::token, Endpoint::about},
    Route{"GET", "/api/locks", Need::token, Endpoint::locks},
    Route{"GET", "/api/tasks", Need::token, Endpoint::tasks},
    Route{"GET", "/api/task", Need::token, Endpoint::task},
    Route{"GET", "/api/queues", Need::token, Endpoint::queues},
    Route{"GET", "/api/queue", Need::token, Endpoint::queue},
    Route{"GET", "/api/doctor", Need::token, Endpoint::doctor},
    Route{"GET", "/api/events", Need::token, Endpoint::events},
    Route{"POST", "/api/locks/break", Need::action, Endpoint::break_lock},
    Route{"POST", "/api/tasks/cancel", Need::action, Endpoint::cancel_task},
    Route{"POST", "/api/tasks/remove", Need::action, Endpoint::remove_task},
};

}  // namespace

std::span<const Route> routes() noexcept {
  return all_routes;
}

std::span<const Route> metrics_routes() noexcept {
  static constexpr std::array few{Route{"GET", "/healthz", Need::nothing, Endpoint::health, true},
                                  Route{"GET", "/metrics", Need::token, Endpoint::metrics}};
  return few;
}

}  // namespace holdfast::serve
