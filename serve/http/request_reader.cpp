#include "serve/http/request_reader.hpp"

#include <algorithm>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "serve/http/limits.hpp"

namespace holdfast::serve {
namespace {

namespace http = boost::beast::http;

int status_for(const boost::system::error_code& error) noexcept {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

char in_lower_case(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool equal_in_any_case(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, in_lower_case, in_lower_case);
}

/// The parts of an absolute-form target, `http://host:port/path?query`, which a server must accept (RFC
/// 9112).
struct AbsoluteTarget {
  std::string_view authority;
  std::string_view rest;  ///< the path and the query; may be empty
};

std::optional<AbsoluteTarget> absolute_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_in_any_case(target.substr(0, scheme.size()), scheme)) continue;
    const auto after = target.substr(scheme.size());
    const auto end = std::min(after.find_first_of("/?"), after.size());
    return AbsoluteTarget{.authority = after.substr(0, end), .rest = after.substr(end)};
  }
  return std::nullopt;
}

}  // namespace

struct RequestReader::Parser : http::request_parser<http::string_body> {
  Parser() {
    header_limit(max_header_bytes);
    body_limit(max_body_bytes);
    eager(true);
  }
};

RequestReader::RequestReader() : parser_(std::make_unique<Parser>()) {}
RequestReader::~RequestReader() = default;

std::size_t RequestReader::put(std::string_view bytes) {
  if (refusal_ || parser_->is_done() || bytes.empty()) return 0;
  boost::system::error_code error;
  const auto used = parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error && error != http::error::need_more) {
    refusal_ = status_for(error);
  } else if (error && bytes.size() - used > max_header_bytes) {
    // Beast limits the header only: the line of a chunk's size, and the fields behind the last chunk, could
    // go on for ever, and come again with every piece.
    refusal_ = 431;
  }
  return used;
}

bool RequestReader::complete() const {
  return !refusal_ && parser_->is_done();
}

Request RequestReader::take() {
  const bool keep_alive = parser_->keep_alive();
  auto message = parser_->release();
  parser_ = std::make_unique<Parser>();
  Request request;
  request.wants_body = message.method() != http::verb::head;
  request.method = request.wants_body ? std::string(message.method_string()) : "GET";
  const std::string whole_target(message.target());
  const auto absolute = absolute_target(whole_target);
  const auto target = absolute ? absolute->rest : std::string_view(whole_target);
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (absolute && request.path.empty()) request.path = "/";
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
  const auto one = [&](http::field name) -> std::optional<std::string> {
    const auto count = message.count(name);
    if (count > 1) request.ambiguous = true;
    if (count != 1) return std::nullopt;
    return std::string(message[name]);
  };
  request.host = one(http::field::host);
  // Two names of the server: the rules for hosts judge one, and a proxy may have judged the other.
  if (absolute && request.host && !equal_in_any_case(*request.host, absolute->authority)) {
    request.ambiguous = true;
  }
  request.origin = one(http::field::origin);
  request.authorization = one(http::field::authorization);
  request.cookie = one(http::field::cookie);
  request.content_type = one(http::field::content_type);
  if (const auto site = message.find("Sec-Fetch-Site"); site != message.end()) {
    request.fetch_site = std::string(site->value());
    if (message.count("Sec-Fetch-Site") > 1) request.ambiguous = true;
  }
  const auto [first, end] = message.equal_range("X-Forwarded-For");
  for (auto from = first; from != end; ++from) request.forwarded_for = std::string(from->value());
  request.keep_alive = keep_alive;
  request.body = std::move(message.body());
  return request;
}

}  // namespace holdfast::serve
