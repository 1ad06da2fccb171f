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

/// The properties of the Redis engine, at compile time.
inline constexpr Capabilities redis_capabilities{.backend = "redis", .supports_fencing = true};

/// The address of a Redis server, the credentials for it, the time limits and the key prefixes.
///
/// parse_redis_url() makes these options from a URL.
struct RedisOptions {
  /// A host name, an IPv4 address, or an IPv6 address without brackets.
  std::string host = "127.0.0.1";
  /// The TCP port.
  std::uint16_t port = 6379;
  /// If not empty: the path of a Unix socket, used instead of host and port.
  std::string unix_socket = {};

  /// The ACL user. Empty: the server's default user.
  std::string user = {};
  /// The password of the user. Empty: no authentication.
  std::string password = {};
  /// The file that parse_redis_url() read `password` from. redis_url() writes its name, so that another
  /// process can use the URL although that contains no password. Backends do not read the file.
  std::string password_file = {};
  /// The number of the database.
  std::uint32_t db = 0;
  /// The name of the connections in CLIENT LIST (CLIENT SETNAME), without spaces and control characters.
  /// Empty: no name.
  std::string client_name = "holdfast";
  /// The label that open() gives to the locks it acquires, as LockOptions::holder. Empty: the default. A
  /// backend that you construct yourself does not use it: pass the label to Locks.
  std::string holder = {};

  /// Connect with TLS. The server's certificate and its name are always verified.
  bool tls = false;
  /// A PEM file with the certificates to trust. Empty: the system's certificate authorities. A self-signed
  /// server is trusted only if its certificate is in this file.
  std::string tls_ca_file = {};
  /// The client certificate as a PEM file, for servers that require one. Set both this and `tls_key_file`, or
  /// neither.
  std::string tls_cert_file = {};
  /// The private key of the client certificate as a PEM file.
  std::string tls_key_file = {};
  /// The name that the server's certificate must contain. Empty: the host.
  std::string tls_server_name = {};

  /// The time limit for resolving, connecting, TLS and authentication together.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5);
  /// How long an operation without a deadline may take, including retries on a new connection; and how long
  /// the server may leave a request unanswered before its connection is dropped.
  std::chrono::milliseconds command_timeout = std::chrono::seconds(5);

  /// The prefix of all keys of locks. Services that share locks must use the same prefix. It must not contain
  /// `fence:` nor end in `fence`.
  std::string lock_prefix = "syncguard";
  /// The prefix of all keys of tasks: 1 to 256 bytes of UTF-8 without control characters.
  std::string task_prefix = "pmcp";
  /// Whether Locks::is_locked may delete lock data that expired more than two seconds ago. It never deletes a
  /// fence, and the answer does not depend on it.
  bool cleanup_in_is_locked = false;
};

/// Parses a URL that begins with `redis://`, `rediss://` or `unix:`. docs/reference/urls.md describes its
/// parts.
///
/// If the URL contains no password, it is read from the file of the parameter `password_file`, or else from
/// the environment variable HOLDFAST_REDIS_PASSWORD. Does not connect.
///
/// InvalidArgument if a part is invalid, or if the password file is missing or malformed; AuthFailed or
/// ServiceUnavailable if that file cannot be read. The message names the part, never the password.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisOptions> parse_redis_url(std::string_view url);

/// Returns the URL of these options, without the password. Parts with their default value are omitted.
[[nodiscard]] HOLDFAST_EXPORT std::string redis_url(const RedisOptions& options);

/// Opens a backend that keeps locks in Redis, in the layout of SyncGuard: processes of both share locks.
///
/// Connects, authenticates and checks the server, within `options.connect_timeout`. Later it reconnects
/// automatically. `log` and `observer` may be null; the observer is notified of reconnects only (to observe
/// operations, see with_observer).
///
/// ServiceUnavailable, NetworkTimeout or RateLimited if the server cannot be reached or used now; AuthFailed
/// if it rejects the credentials, or if its certificate is not trusted; InvalidArgument for invalid options,
/// and for a server in cluster or Sentinel mode; Internal for an unexpected answer.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<LockBackend>> make_redis_lock_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

/// Opens a backend that keeps tasks in Redis, in the layout of pmcp-tasks, with a separate connection.
/// Connects and fails as make_redis_lock_backend() does.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

}  // namespace holdfast
