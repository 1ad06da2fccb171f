#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/access/listen_address.hpp"

namespace holdfast::serve {

/// Which `Host` and `Origin` a request may have.
///
/// A page of another site can make a name of its own resolve to this server (DNS rebinding), and then reads
/// the answers as its own: so the names are fixed. An IP address cannot be rebound: a page has one as its
/// host only if the server at that address has sent it.
struct HostRules {
  ListenAddress listen;
  bool tls = false;
  bool behind_proxy = false;
  /// More names, with or without a port: those of a proxy, or of this machine in the network.
  std::vector<std::string> names = {};

  /// Returns whether a request for this host is meant for this server.
  [[nodiscard]] bool allows_host(std::string_view host) const;
  /// Returns whether a page of this origin is one that this server sent under the name `host`.
  [[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view host) const;
};

}  // namespace holdfast::serve
