#include "serve/http/response.hpp"

#include <nlohmann/json.hpp>

#include "rpc/json/text.hpp"

namespace holdfast::serve {
namespace {

std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Internal Server Error";
  }
}

// Text of users reaches the page as text nodes only. If that failed once, the policy still runs no script.
constexpr std::string_view protection =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n";

}  // namespace

std::string head_of(const Response& response, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + ' ';
  head.append(reason_of(response.status)).append("\r\n").append(protection);
  if (response.status != 204) {
    head.append("Content-Type: ").append(response.content_type).append("\r\n");
    head.append("Content-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  }
  for (const auto& [name, value] : response.fields) {
    head.append(name).append(": ").append(value).append("\r\n");
  }
  head.append(keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
  return head;
}

std::string event_stream_head() {
  std::string head = "HTTP/1.1 200 OK\r\n";
  head.append(protection);
  // nginx would otherwise collect the events.
  head.append("Content-Type: text/event-stream\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n");
  return head;
}

Response error_response(int status, std::string_view code, std::string_view message) {
  return {.status = status, .body = rpc::dump({{"error", {{"code", code}, {"message", message}}}}).str()};
}

}  // namespace holdfast::serve
