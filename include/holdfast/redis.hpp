#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast {

class Observer;

inline constexpr Capabilities redis_capabilities{.backend = "redis", .supports_fencing = true};

/// Where a Redis is, who we are there, and how long we wait for it.
struct RedisOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  /// If not empty: the path of a Unix socket, in place of host and port.
  std::string unix_socket = {};

  /// Empty: the server's default user.
  std::string user = {};
  /// Empty: no authentication.
  std::string password = {};
  /// Where the password came from if not from the URL, so that the URL can be handed on without it.
  std::string password_file = {};
  std::uint32_t db = 0;
  /// CLIENT SETNAME, seen in CLIENT LIST; empty: none. No spaces or control characters.
  std::string client_name = "holdfast";

  bool tls = false;
  /// PEM. Empty: the system's certificate authorities. A self-signed server is trusted only by naming it
  /// here.
  std::string tls_ca_file = {};
  /// PEM, for servers that ask for a client certificate. Both or neither.
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  /// The name the server's certificate must carry. Empty: the host.
  std::string tls_server_name = {};

  /// Resolving, connecting, TLS and authentication together.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5);
  /// How long an operation without a deadline of its own may take, repeats on a new connection included; and
  /// how long a server may owe an answer before its connection is given up.
  std::chrono::milliseconds command_timeout = std::chrono::seconds(5);

  /// In front of every lock's keys. Services that share locks share the prefix.
  std::string lock_prefix = "syncguard";
  /// In front of every task's keys.
  std::string task_prefix = "pmcp";
  /// is_locked may delete lock data (never a fence) that expired more than two seconds ago.
  bool cleanup_in_is_locked = false;
};

/// Options from `redis://`, `rediss://` or `unix:` (docs/reference/urls.md lists every part). InvalidArgument
/// names the part that is wrong, never the password.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisOptions> parse_redis_url(std::string_view url);

/// The URL of these options, without the password.
[[nodiscard]] HOLDFAST_EXPORT std::string redis_url(const RedisOptions& options);

/// Locks in a Redis, laid out as SyncGuard lays them out. Connects, authenticates and checks the server at
/// once: ServiceUnavailable, NetworkTimeout, AuthFailed or InvalidArgument if that fails. `observer` is told
/// of reconnects only (for operations see with_observer).
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<LockBackend>> make_redis_lock_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

/// Tasks in a Redis, laid out as pmcp-tasks lays them out, over a connection of its own.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

}  // namespace holdfast
