#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::serve {

/// One HTTP request: what this server looks at, and nothing else of it.
struct Request {
  std::string method;  ///< GET for HEAD too: see `wants_body`
  std::string path;    ///< before the `?`, as it was sent, without the `http://host` of a proxy's form: no
                       ///< route needs escapes
  std::string query;   ///< after it
  /// Values of header fields; empty if the request has none, or several, of that name.
  std::optional<std::string> host, origin, authorization, cookie, content_type, fetch_site;
  /// The last one: proxies append, and the client may have sent the others. For the audit only.
  std::optional<std::string> forwarded_for;
  /// A field that decides about access came more than once, or the target names another host than the field
  /// Host: a proxy may have judged by the other one.
  bool ambiguous = false;
  bool keep_alive = false;
  /// False for HEAD, which is answered like GET. A body behind the header would be read as the next response.
  bool wants_body = true;
  std::string body;
};

/// Returns the decoded parameters of a query or a form. Empty if an escape is invalid.
[[nodiscard]] std::optional<std::vector<std::pair<std::string, std::string>>> parse_parameters(
    std::string_view text);

/// Returns the value of a cookie; empty if there is none of that name.
[[nodiscard]] std::optional<std::string_view> cookie_in(std::string_view header, std::string_view name);

}  // namespace holdfast::serve
