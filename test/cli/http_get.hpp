#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

struct HttpResponse {
  int status = 0;  ///< 0: there was none
  std::string body;
};

/// Asks a server on a Unix socket, or on this port of the loopback, and reads until it closes. `fields`: more
/// lines of the header; a Host among them replaces the usual one.
[[nodiscard]] HttpResponse http_get(const std::string& socket, const std::string& path,
                                    const std::string& fields = {});
[[nodiscard]] HttpResponse http_get(std::uint16_t port, const std::string& path,
                                    const std::string& fields = {});

}  // namespace holdfast::test
