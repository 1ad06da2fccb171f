#include "serve/access/listen_address.hpp"

#include <asio/ip/address.hpp>
#include <charconv>
#include <holdfast/error.hpp>
#include <holdfast/printable.hpp>

namespace holdfast::serve {
namespace {

Error invalid_address(std::string_view text, const std::string& why) {
  return {ErrorCode::InvalidArgument,
          "--listen \"" + printable(text) + "\": " + why + ". Use 127.0.0.1:4780, [::1]:4780 or unix:PATH."};
}

}  // namespace

std::optional<std::string> ip_address(std::string_view text) {
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(text), error);
  return error ? std::nullopt : std::optional(address.to_string());
}

bool is_loopback_address(std::string_view text) {
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(text), error);
  return !error && address.is_loopback();
}

bool ListenAddress::is_loopback() const noexcept {
  return is_unix() || is_loopback_address(host);
}

std::string ListenAddress::text() const {
  if (is_unix()) return "unix:" + path;
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<ListenAddress> ListenAddress::parse(std::string_view text) {
  ListenAddress address;
  if (text.starts_with("unix:")) {
    address.path = text.substr(5);
    if (address.path.empty()) return invalid_address(text, "the path is empty");
    return address;
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid_address(text, "the port is missing");
  auto host = text.substr(0, colon);
  const auto port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return invalid_address(text, "the port must be a number from 0 to 65535");
  }
  if (host.size() > 2 && host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return invalid_address(text, "an IPv6 address must be in brackets");
  }
  if (host == "localhost") host = "127.0.0.1";
  auto known = ip_address(host);
  if (!known) return invalid_address(text, "the host must be an IP address or localhost");
  address.host = *std::move(known);
  return address;
}

}  // namespace holdfast::serve
