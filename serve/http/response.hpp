#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::serve {

/// One HTTP response.
struct Response {
  int status = 200;
  /// Static text.
  std::string_view content_type = "application/json; charset=utf-8";
  std::string body = {};
  /// More header fields. Values are the server's own: no text of a user, which could contain a line break.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
};

/// Returns status line and header fields, those included that protect a browser: no script but ours, no
/// frames, no caches.
[[nodiscard]] std::string head_of(const Response& response, bool keep_alive);
/// Returns the same for an event stream, which ends with the connection.
[[nodiscard]] std::string event_stream_head();

/// A JSON object `{"error":{"code":CODE,"message":MESSAGE}}`, as the command line prints errors.
[[nodiscard]] Response error_response(int status, std::string_view code, std::string_view message);

}  // namespace holdfast::serve
