#pragma once

#include <cstdint>
#include <holdfast/result.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::serve {

/// Where the server listens: `HOST:PORT`, `[HOST]:PORT` or `unix:PATH`.
struct ListenAddress {
  std::string path;  ///< of a Unix socket; empty for TCP
  std::string host;  ///< an IP address, without brackets, as ip_address() writes it
  std::uint16_t port = 0;

  [[nodiscard]] bool is_unix() const noexcept { return !path.empty(); }
  /// Only processes of this machine can connect.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// All addresses of this machine.
  [[nodiscard]] bool is_wildcard() const noexcept { return host == "0.0.0.0" || host == "::"; }
  /// As it is written.
  [[nodiscard]] std::string text() const;

  /// InvalidArgument for any other text, a name other than `localhost` included: what it means is decided
  /// elsewhere, and later.
  [[nodiscard]] static Result<ListenAddress> parse(std::string_view text);
};

/// Returns an IP address, without brackets, as it is usually written: one address has many texts. Empty if
/// the text is none.
[[nodiscard]] std::optional<std::string> ip_address(std::string_view text);
/// Returns whether the text is an IP address that stays in this machine.
[[nodiscard]] bool is_loopback_address(std::string_view text);

}  // namespace holdfast::serve
