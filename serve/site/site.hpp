#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>
#include <functional>
#include <holdfast/metrics.hpp>
#include <holdfast/open.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/session/event.hpp"
#include "serve/access/decision.hpp"
#include "serve/access/secrets.hpp"
#include "serve/http/request.hpp"
#include "serve/http/response.hpp"
#include "serve/site/audit_line.hpp"
#include "serve/site/live_feed.hpp"
#include "serve/site/request_handler.hpp"
#include "serve/site/store_requests.hpp"
#include "view/store_view.hpp"

namespace holdfast::serve {

/// Answers requests about one store. Lives on one thread, with a few others that wait for the store.
class Site final : public RequestHandler {
 public:
  struct Settings {
    AccessRules access;
    /// Empty if none is needed.
    std::string token = {};
    bool show_data = false;
    /// With the password: for doctor, which connects by itself.
    std::string store_url = {};
    std::shared_ptr<Metrics> metrics = {};
    /// Receives each action, and failed logins.
    std::function<void(const AuditLine&)> log = {};
  };
  Site(asio::any_io_executor executor, Holdfast store, Settings settings);
  ~Site() override;

  [[nodiscard]] asio::awaitable<Answer> answer(Request request, std::string peer) override;
  [[nodiscard]] LiveFeed* feed() noexcept override { return &feed_; }
  /// For the metrics.
  void set_connection_count(std::size_t count) noexcept override { connections_ = count; }
  /// Ends the streams, and cancels what waits for the store.
  void stop();

 private:
  [[nodiscard]] Credentials credentials_of(const Request& request);
  /// The id that the request presents, of a session or not.
  [[nodiscard]] std::optional<std::string> session_of(const Request& request) const;
  [[nodiscard]] asio::awaitable<Answer> reply(const Route& route, bool authorised, Request request,
                                              std::string peer);
  [[nodiscard]] Response login(const Request& request, const std::string& peer);
  [[nodiscard]] Response logout(const Request& request);
  [[nodiscard]] Response about() const;
  [[nodiscard]] asio::awaitable<Response> readiness();
  [[nodiscard]] asio::awaitable<Response> metrics();
  [[nodiscard]] asio::awaitable<Response> rows(const Request& request, Endpoint endpoint);
  [[nodiscard]] asio::awaitable<Response> doctor();
  /// Runs `work`, which blocks, on a thread of the pool.
  [[nodiscard]] asio::awaitable<Response> in_pool(asio::thread_pool& pool, std::function<Response()> work);
  [[nodiscard]] std::string cookie(std::string_view id, std::chrono::seconds lifetime, bool secure) const;
  /// Whether the browser has reached this server, or its proxy, by TLS.
  [[nodiscard]] bool is_secure(const Request& request) const;
  void log_refused_login(const std::string& peer);

  asio::any_io_executor executor_;
  Settings settings_;
  Holdfast store_;
  view::StoreView view_;
  LiveFeed feed_;
  StoreRequests requests_;
  Sessions sessions_;
  std::uint64_t refused_logins_ = 0;
  std::chrono::steady_clock::time_point next_login_log_ = {};
  std::size_t connections_ = 0;
  std::size_t waiting_for_store_ = 0;
  Response diagnosis_;  ///< doctor's last
  std::chrono::steady_clock::time_point diagnosed_at_ = {};
  bool diagnosing_ = false;
  rpc::Event diagnosed_;
  asio::thread_pool doctor_pool_{1};
  asio::thread_pool pool_{2};
};

}  // namespace holdfast::serve
