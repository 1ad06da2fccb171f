#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class Observer;

/// The properties of the Redis engine, at compile time.
inline constexpr Capabilities redis_capabilities{.backend = "redis", .supports_fencing = true};

/// The network address of a server.
struct RedisAddress {
  /// A host name, an IPv4 address, or an IPv6 address without brackets.
  std::string host = "127.0.0.1";
  /// The TCP port. 0 only where a port may be omitted.
  std::uint16_t port = 6379;

  /// Compares host and port as text: two names of one machine differ.
  friend bool operator==(const RedisAddress&, const RedisAddress&) = default;
};

/// The address at which this machine reaches a node of a cluster that announces another one: behind NAT, a
/// tunnel or a container's port mapping.
struct RedisAnnouncement {
  /// The address that the cluster announces. Port 0: every port of that host.
  RedisAddress announced = {};
  /// The address to connect to. Port 0: the announced port.
  RedisAddress reached_at = {};
  /// Compares both addresses.
  friend bool operator==(const RedisAnnouncement&, const RedisAnnouncement&) = default;
};

/// How locks and tasks are kept in Redis. docs/reference/urls.md describes both.
enum class RedisLayout : std::uint8_t {
  documented,  ///< as SyncGuard and pmcp-tasks do, whose processes share locks and tasks
  native,      ///< one key per lock, for Holdfast only: less memory and server time, and fit for a cluster
};

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
  /// Not empty: a Redis Cluster, and some of its nodes, of which one must be reachable when the store is
  /// opened. The others are found there. `host`, `port` and `unix_socket` are not used, and `db` must be 0.
  std::vector<RedisAddress> cluster_nodes = {};
  /// Where to reach nodes of the cluster whose announced addresses do not work here.
  std::vector<RedisAnnouncement> cluster_connect_to = {};

  /// If not empty: the sentinels to ask for the address of the master, which is used instead of host and
  /// port. The order is only that of the first attempt.
  std::vector<RedisAddress> sentinels = {};
  /// The name under which the sentinels watch the master. Required with `sentinels`.
  std::string sentinel_service = {};
  /// The ACL user at the sentinels, whose users are not those of the master. Empty: their default user.
  std::string sentinel_user = {};
  /// The password of that user. Empty: no authentication at the sentinels.
  std::string sentinel_password = {};
  /// The file that parse_redis_url() read `sentinel_password` from, as `password_file`.
  std::string sentinel_password_file = {};

  /// The ACL user. Empty: the server's default user.
  std::string user = {};
  /// The password of the user. Empty: no authentication.
  std::string password = {};
  /// The file that parse_redis_url() read `password` from. redis_url() writes its name, so that another
  /// process can use the URL although that contains no password. Backends do not read the file.
  std::string password_file = {};
  /// The number of the database.
  std::uint32_t db = 0;
  /// The name of the connections in CLIENT LIST (CLIENT SETNAME), without spaces and control characters. An
  /// empty text: no name. Not set: open() uses the label of its locks, with _ in place of each character that
  /// a name cannot have; otherwise `holdfast`. A server that refuses the name is used without one.
  std::optional<std::string> client_name = std::nullopt;
  /// The label that open() gives to the locks it acquires, as LockOptions::holder. Empty: the default. A
  /// backend that you construct yourself does not use it: pass the label to Locks.
  std::string holder = {};

  /// Connect with TLS, to the sentinels too. The server's certificate and its name are always verified.
  bool tls = false;
  /// A PEM file with the certificates to trust. Empty: the system's certificate authorities. A self-signed
  /// server is trusted only if its certificate is in this file.
  std::string tls_ca_file = {};
  /// The client certificate as a PEM file, for servers that require one. Set both this and `tls_key_file`, or
  /// neither.
  std::string tls_cert_file = {};
  /// The private key of the client certificate as a PEM file.
  std::string tls_key_file = {};
  /// The name that the server's certificate must contain, that of each sentinel too. Empty: the host.
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
  /// How locks and tasks are kept. All programs that share a prefix must use the same layout; a store refuses
  /// the other one. Empty: native with `cluster_nodes`, else documented.
  std::optional<RedisLayout> layout = std::nullopt;
  /// Whether Locks::is_locked may delete lock data that expired more than two seconds ago. It never deletes a
  /// fence, and the answer does not depend on it.
  bool cleanup_in_is_locked = false;

  /// How many replicas must acknowledge each grant and renewal of a lock, unless LockOptions::min_replicas
  /// says otherwise. 0: none, they are not asked. Must be 0 with `cluster_nodes`.
  std::uint32_t min_replicas = 0;
  /// How long to wait for these replicas. Use less than `command_timeout`, which limits the whole operation,
  /// and much less than the ttl of the locks.
  std::chrono::milliseconds replica_timeout = std::chrono::seconds(1);
  /// Whether every fence is at least the number of seconds since 2025-01-01, by the server's clock. So a
  /// server that lost its newest writes, or all of them, does not repeat the fences of a key that is granted
  /// less than once per second on average.
  bool fence_floor_clock = false;
  /// Every fence of a lock is above this number; 0: no such floor. Set it when locks move here from another
  /// store, to the highest fence that store granted: data that remembers its fences then accepts the new
  /// ones. Every client must have it. At most `highest_fence_floor`. Not for jobs of queues.
  std::uint64_t fence_floor = 0;
  /// Far below the end of a counter, and below the level at which grants log a warning.
  static constexpr std::uint64_t highest_fence_floor = 89'999'999'999'999;
};

/// Parses a URL that begins with `redis://`, `rediss://`, `redis+sentinel://`, `rediss+sentinel://`,
/// `redis+cluster://`, `rediss+cluster://` or `unix:`. docs/reference/urls.md describes its parts.
///
/// If the URL contains no password, it is read from the file of the parameter `password_file`, or else from
/// the environment variable HOLDFAST_REDIS_PASSWORD. The password for sentinels is read from the file of
/// `sentinel_password_file`, or else from HOLDFAST_SENTINEL_PASSWORD. Does not connect.
///
/// InvalidArgument if a part is invalid, or if the password file is missing or malformed; AuthFailed or
/// ServiceUnavailable if that file cannot be read. The message names the part, never the password.
[[nodiscard]] HOLDFAST_EXPORT Result<RedisOptions> parse_redis_url(std::string_view url);

/// Returns the URL of these options, without the passwords. Parts with their default value are omitted.
[[nodiscard]] HOLDFAST_EXPORT std::string redis_url(const RedisOptions& options);

/// Opens a backend that keeps locks in Redis. In the documented layout processes of SyncGuard share them.
///
/// Connects, authenticates and checks the server, within `options.connect_timeout`. Later it reconnects
/// automatically. `log` and `observer` may be null; the observer is notified of reconnects, fence regressions
/// and clock jumps only (to observe operations, see with_observer).
///
/// ServiceUnavailable, NetworkTimeout or RateLimited if the server cannot be reached or used now; AuthFailed
/// if it rejects the credentials, or if its certificate is not trusted; InvalidArgument for invalid options,
/// for a member of a cluster without `cluster_nodes`, for a Sentinel in place of a server, for a service that
/// no sentinel knows, and for a cluster with the documented layout and a prefix without a hash tag; Internal
/// for an unexpected answer.
///
/// With `options.sentinels` it follows the master through failovers: the fencing tokens of a new master rank
/// above all that an earlier one granted. What a failover may lose: docs/guide/sentinel.md.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<LockBackend>> make_redis_lock_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

/// Opens a backend that keeps tasks in Redis, with a separate connection. In the documented layout processes
/// of pmcp-tasks share them.
/// Connects and fails as make_redis_lock_backend() does.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<StorageBackend>> make_redis_storage_backend(
    const RedisOptions& options, std::shared_ptr<Log> log = {}, std::shared_ptr<Observer> observer = {});

}  // namespace holdfast
