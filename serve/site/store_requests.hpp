#pragma once

#include <functional>
#include <holdfast/open.hpp>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "serve/http/request.hpp"
#include "serve/http/response.hpp"
#include "serve/site/audit_line.hpp"
#include "view/store_view.hpp"

namespace holdfast::serve {

/// The requests that ask the store itself, which blocks: called on threads of a pool.
class StoreRequests {
 public:
  struct Settings {
    /// With variables and results.
    bool show_data = false;
    /// Receives one line for each action, whatever its result.
    std::function<void(const AuditLine&)> audit = {};
  };
  StoreRequests(Holdfast store, view::StoreView& view, Settings settings);

  [[nodiscard]] Response task(const Request& request);
  /// A queue and a page of its tasks.
  [[nodiscard]] Response queue(const Request& request);
  // Actions. `peer`: who asks, for the audit.
  [[nodiscard]] Response break_lock(const Request& request, const std::string& peer);
  [[nodiscard]] Response cancel_task(const Request& request, const std::string& peer);
  [[nodiscard]] Response remove_task(const Request& request, const std::string& peer);

  /// Cancels what is under way.
  void stop() { stop_.request_stop(); }

 private:
  struct Action;
  [[nodiscard]] Response audited(const Action& action, const std::function<Response()>& carry_out);
  [[nodiscard]] Tasks tasks() const;
  /// Only the task that was shown, if the request says which: its id may have been used again since.
  [[nodiscard]] Tasks tasks_of(const std::map<std::string, std::string>& texts) const;

  Holdfast store_;
  view::StoreView& view_;
  Settings settings_;
  std::stop_source stop_;
};

}  // namespace holdfast::serve
