#include "serve/site/site.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <charconv>
#include <holdfast/doctor.hpp>
#include <holdfast/json.hpp>
#include <holdfast/printable.hpp>
#include <holdfast/version.hpp>
#include <utility>

#include "rpc/protocol/error_text.hpp"
#include "serve/content/assets.hpp"
#include "serve/content/snapshot_json.hpp"
#include "serve/content/store_metrics.hpp"
#include "serve/http/limits.hpp"
#include "serve/site/responses.hpp"

namespace holdfast::serve {
namespace {

using namespace std::chrono_literals;

constexpr auto diagnosis_lifetime = 15s;
/// Of X-Forwarded-For, in the log.
constexpr std::size_t max_forwarded_bytes = 128;
/// For a snapshot, for clients that do not follow the events.
constexpr auto snapshot_timeout = 3s;

Response asset(std::string_view text, std::string_view type) {
  return {.content_type = type, .body = std::string(text)};
}

Response response_for(const Error& error) {
  const bool is_callers = error.code() == ErrorCode::InvalidArgument || error.code() == ErrorCode::BadCursor;
  const int status = is_callers ? 400 : error.code() == ErrorCode::NotFound ? 404 : 503;
  return error_response(status, to_string(error.code()), rpc::text_of(error));
}

std::string findings_json(const std::vector<Finding>& findings, WallTime at) {
  JsonText json;
  json.begin_object().name("atMs").time(at).name("findings").begin_array();
  for (const auto& finding : findings) {
    json.begin_object().name("severity").text(to_string(finding.severity)).name("topic").text(finding.topic);
    json.name("found").text(finding.found).name("advice").text(finding.advice).end_object();
  }
  json.end_array().end_object();
  return std::move(json.str());
}

Response diagnose(const std::string& url) {
  const auto findings = examine(url).value_or_throw();
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return {.body = findings_json(findings, now)};
}

}  // namespace

Site::Site(asio::any_io_executor executor, Holdfast store, Settings settings)
    : executor_(std::move(executor)),
      settings_(std::move(settings)),
      store_(store),
      view_(store_, view::StoreView::options_for(store_)),
      feed_(executor_, view_),
      requests_(std::move(store), view_, {.show_data = settings_.show_data, .audit = settings_.log}),
      diagnosed_(executor_) {}

Site::~Site() = default;

void Site::stop() {
  feed_.stop();
  requests_.stop();
  diagnosed_.notify();
}

Credentials Site::credentials_of(const Request& request) {
  Credentials credentials;
  if (settings_.token.empty()) return credentials;
  if (request.authorization) {
    credentials.bearer = equal_secrets(bearer_in(*request.authorization), settings_.token);
  }
  if (const auto id = session_of(request)) {
    credentials.session = sessions_.contains(*id, Sessions::Clock::now());
  }
  return credentials;
}

std::optional<std::string> Site::session_of(const Request& request) const {
  if (!request.cookie) return std::nullopt;
  const auto id = cookie_in(*request.cookie, cookie_name(settings_.access.hosts));
  return id ? std::optional(std::string(*id)) : std::nullopt;
}

asio::awaitable<RequestHandler::Answer> Site::answer(Request request, std::string peer) {
  Answer answer;
  try {
    if (settings_.access.hosts.behind_proxy && request.forwarded_for) {
      const auto& from = *request.forwarded_for;
      // Its end: that is what the proxy wrote, behind what the client may have sent.
      peer += " for " + from.substr(from.size() - std::min(from.size(), max_forwarded_bytes));
    }
    const auto credentials = credentials_of(request);
    const auto decision = decide(request, credentials, settings_.access);
    std::function<bool()> still_allowed;
    if (credentials.session && !credentials.bearer) {
      still_allowed = [this, id = session_of(request)] {
        return id && sessions_.contains(*id, Sessions::Clock::now());
      };
    }
    if (decision.route != nullptr) {
      answer = co_await reply(*decision.route, decision.authorised, std::move(request), std::move(peer));
      // A page that stays open would be read long after its logout.
      answer.still_allowed = std::move(still_allowed);
    } else {
      answer.response = refusal_response(decision);
    }
  } catch (const Error& error) {
    answer.response = response_for(error);
  } catch (const std::exception& error) {
    answer.response = error_response(500, "Internal", error.what());
  }
  co_return answer;
}

asio::awaitable<RequestHandler::Answer> Site::reply(const Route& route, bool authorised, Request request,
                                                    std::string peer) {
  Answer answer;
  switch (route.endpoint) {
    case Endpoint::health:
      answer.response = text_response("ok\n");
      break;
    case Endpoint::readiness:
      answer.response = co_await readiness();
      break;
    case Endpoint::metrics:
      answer.response = co_await metrics();
      break;
    case Endpoint::openapi:
      answer.response = asset(openapi_json, "application/json");
      break;
    case Endpoint::page:
      answer.response = asset(authorised ? page_html : login_html, "text/html; charset=utf-8");
      if (!authorised) answer.response.status = 401;
      break;
    case Endpoint::style:
      answer.response = asset(style_css, "text/css; charset=utf-8");
      break;
    case Endpoint::icon:
      answer.response = asset(icon_svg, "image/svg+xml");
      break;
    case Endpoint::login_script:
      answer.response = asset(login_js, "text/javascript; charset=utf-8");
      break;
    case Endpoint::page_script:
      answer.response = asset(page_js, "text/javascript; charset=utf-8");
      break;
    case Endpoint::login:
      answer.response = login(request, peer);
      break;
    case Endpoint::logout:
      answer.response = logout(request);
      break;
    case Endpoint::about:
      answer.response = about();
      break;
    case Endpoint::locks:
    case Endpoint::tasks:
    case Endpoint::queues:
      answer.response = co_await rows(request, route.endpoint);
      break;
    case Endpoint::doctor:
      answer.response = co_await doctor();
      break;
    case Endpoint::events: {
      answer.event_stream = feed_.stream_count() < max_event_streams;
      if (!answer.event_stream) {
        answer.response = error_response(503, "TooManyStreams", "too many pages are open; close one");
      }
      break;
    }
    case Endpoint::task:
    case Endpoint::queue:
    case Endpoint::break_lock:
    case Endpoint::cancel_task:
    case Endpoint::remove_task: {
      std::function<Response()> work = [this, endpoint = route.endpoint, request = std::move(request),
                                        peer = std::move(peer)]() -> Response {
        switch (endpoint) {
          case Endpoint::break_lock:
            return requests_.break_lock(request, peer);
          case Endpoint::cancel_task:
            return requests_.cancel_task(request, peer);
          case Endpoint::remove_task:
            return requests_.remove_task(request, peer);
          case Endpoint::queue:
            return requests_.queue(request);
          default:
            return requests_.task(request);
        }
      };
      answer.response = co_await in_pool(pool_, std::move(work));
      break;
    }
  }
  co_return answer;
}

Response Site::login(const Request& request, const std::string& peer) {
  const auto json = Json::parse(request.body).value_or_throw();
  std::string given;
  for (const auto& [name, value] : members_of(json)) {
    if (name == "token") given = string_in(value).value_or("");
  }
  if (settings_.token.empty() || !equal_secrets(given, settings_.token)) {
    log_refused_login(peer);
    return error_response(401, "WrongToken", "this is not the token of this server");
  }
  auto id = new_secret();
  Response response{.status = 204};
  response.fields.emplace_back("Set-Cookie", cookie(id, Sessions::lifetime, is_secure(request)));
  sessions_.add(std::move(id), Sessions::Clock::now());
  return response;
}

Response Site::logout(const Request& request) {
  if (const auto id = session_of(request)) sessions_.remove(*id);
  Response response{.status = 204};
  response.fields.emplace_back("Set-Cookie", cookie("", 0s, is_secure(request)));
  return response;
}

void Site::log_refused_login(const std::string& peer) {
  const auto now = std::chrono::steady_clock::now();
  ++refused_logins_;
  if (!settings_.log || now < next_login_log_) return;
  // A client that guesses must not fill the disk.
  next_login_log_ = now + 1s;
  settings_.log({.event = "login_refused",
                 .fields = {{.name = "peer", .value = peer, .is_text = true},
                            {.name = "refused", .value = std::to_string(refused_logins_)}}});
}

bool Site::is_secure(const Request& request) const {
  return settings_.access.hosts.tls || (request.origin && request.origin->starts_with("https://"));
}

std::string Site::cookie(std::string_view id, std::chrono::seconds lifetime, bool secure) const {
  std::string text = cookie_name(settings_.access.hosts) + "=";
  text.append(id).append("; Path=/; HttpOnly; SameSite=Strict; Max-Age=");
  text.append(std::to_string(lifetime.count()));
  if (secure) text.append("; Secure");
  return text;
}

Response Site::about() const {
  JsonText json;
  json.begin_object().name("version").text(version()).name("url").text(store_.url());
  json.name("engine").text(store_.locks().capabilities().backend);
  json.name("showData").boolean(settings_.show_data);
  json.name("allowActions").boolean(settings_.access.allow_actions);
  json.name("hasSession").boolean(settings_.access.token_needed).end_object();
  return {.body = std::move(json.str())};
}

asio::awaitable<Response> Site::readiness() {
  const auto snapshot = co_await feed_.fresh(snapshot_timeout);
  const bool ready = snapshot->whole && snapshot->is_up(BootClock::now());
  co_return text_response(ready ? "ready\n" : "the store does not answer\n", ready ? 200 : 503);
}

asio::awaitable<Response> Site::metrics() {
  const auto snapshot = co_await feed_.fresh(snapshot_timeout);
  const ServerFigures figures{.connections = connections_, .event_streams = feed_.stream_count()};
  auto page = store_metrics(*snapshot, figures, BootClock::now());
  if (settings_.metrics) page += settings_.metrics->prometheus();
  co_return metrics_response(std::move(page));
}

asio::awaitable<Response> Site::rows(const Request& request, Endpoint endpoint) {
  RowFilter filter;
  std::string text;
  const auto parameters = parse_parameters(request.query);
  if (!parameters) throw Error(ErrorCode::InvalidArgument, "the query has an invalid escape");
  for (const auto& [name, value] : *parameters) {
    if (name == "filter") text = value;
    if (name == "limit") {
      const auto end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), end, filter.limit);
      if (parsed.ec != std::errc() || parsed.ptr != end) {
        throw Error(ErrorCode::InvalidArgument, "\"limit\" must be a number");
      }
    }
    if (name == "status" && endpoint == Endpoint::tasks) {
      filter.status = parse_task_status(value);
      if (!filter.status) throw Error(ErrorCode::InvalidArgument, "\"status\" is not a status of tasks");
    }
  }
  filter.text = text;
  const auto snapshot = co_await feed_.fresh(snapshot_timeout);
  const bool is_known = endpoint == Endpoint::queues ? snapshot->queues_known() : snapshot->whole;
  if (!is_known) {
    const auto why =
        snapshot->error.empty() ? "the store has not been read yet. Retry in a second." : snapshot->error;
    co_return error_response(503, "NotReadYet", why);
  }
  const bool is_refused = (endpoint == Endpoint::tasks && snapshot->tasks_refused) ||
                          (endpoint == Endpoint::queues && snapshot->queues_refused);
  if (is_refused) {
    throw Error(ErrorCode::AuthFailed,
                "the user of the store may not read these; `holdfast doctor` names the rights that it lacks");
  }
  const auto now = BootClock::now();
  Response response;
  response.body = endpoint == Endpoint::locks   ? locks_json(*snapshot, filter, now)
                  : endpoint == Endpoint::tasks ? tasks_json(*snapshot, filter, now)
                                                : queues_json(*snapshot, filter, now);
  co_return response;
}

asio::awaitable<Response> Site::doctor() {
  while (diagnosing_) co_await diagnosed_.wait();
  const auto now = std::chrono::steady_clock::now();
  if (diagnosed_at_ != std::chrono::steady_clock::time_point() && now - diagnosed_at_ < diagnosis_lifetime) {
    co_return diagnosis_;
  }
  diagnosing_ = true;
  std::function<Response()> work = [url = settings_.store_url] { return diagnose(url); };
  diagnosis_ = co_await in_pool(doctor_pool_, std::move(work));
  // A refusal is not worth keeping: the next request may find the store again, or a free thread.
  if (diagnosis_.status == 200) diagnosed_at_ = std::chrono::steady_clock::now();
  diagnosing_ = false;
  diagnosed_.notify();
  co_return diagnosis_;
}

asio::awaitable<Response> Site::in_pool(asio::thread_pool& pool, std::function<Response()> work) {
  if (waiting_for_store_ >= max_store_requests) {
    co_return error_response(503, "TooManyRequests", "too many requests wait for the store; retry later");
  }
  struct Pending {
    explicit Pending(const asio::any_io_executor& executor) : done(executor) {}
    std::optional<Response> response;
    rpc::Event done;
  };
  const auto pending = std::make_shared<Pending>(executor_);
  ++waiting_for_store_;
  asio::post(pool, [pending, work = std::move(work), executor = executor_] {
    Response response;
    try {
      response = work();
    } catch (const Error& error) {
      response = response_for(error);
    } catch (const std::exception& error) {
      response = error_response(500, "Internal", error.what());
    }
    asio::post(executor, [pending, response = std::move(response)]() mutable {
      pending->response = std::move(response);
      pending->done.notify();
    });
  });
  while (!pending->response) co_await pending->done.wait();
  --waiting_for_store_;
  co_return std::move(*pending->response);
}

}  // namespace holdfast::serve
