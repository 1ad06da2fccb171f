#pragma once

#include <sys/types.h>

#include <cstdint>
#include <holdfast/redis.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/certificates.hpp"
#include "support/raw_redis.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {

/// A real redis-server of one test: loopback TCP, a Unix socket and, if asked for, TLS; everything it writes
/// is in a temporary directory. It dies with this object, and with the thread that started it, even when that
/// is killed. Functions throw std::runtime_error, with the server's log, if the server does not obey.
class RedisServer {
 public:
  struct Options {
    /// Keep data over stop, kill and restart. Off by default: a restart then forgets everything.
    bool persistent = false;
    /// Also listen for TLS, with a certificate of its own CA for localhost, 127.0.0.1 and ::1.
    bool tls = false;
    /// The default user's password.
    std::string password = {};
    /// More lines of redis.conf: `user alice on >secret ~* &* +@all`, `maxmemory 3mb`, …
    std::vector<std::string> config = {};
    /// A Sentinel; what it watches is in `config`.
    bool sentinel = false;
  };
  enum class Until : std::uint8_t {
    ready,      ///< it answers PING
    listening,  ///< it answers anything at all, -LOADING for one
  };

  RedisServer() : RedisServer(Options{}) {}
  explicit RedisServer(Options options);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  /// How to reach it, as the default user, with the password if it has one.
  [[nodiscard]] RedisOptions tcp() const;
  [[nodiscard]] RedisOptions unix_socket() const;
  /// Trusts the server's CA; without a client certificate (see `client_certificate`).
  [[nodiscard]] RedisOptions tls() const;
  /// The same as URLs.
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::string unix_url() const;
  [[nodiscard]] std::string tls_url() const;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint16_t tls_port() const { return tls_port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const TempDir& directory() const { return directory_; }
  [[nodiscard]] const CertificateAuthority& authority() const { return *authority_; }
  /// For a server that was configured with `tls-auth-clients yes`.
  [[nodiscard]] CertificateAuthority::Issued client_certificate() const;
  [[nodiscard]] std::string log() const;

  /// A separate connection, for commands that bypass the code under test.
  [[nodiscard]] RawRedis raw() const { return RawRedis(unix_socket()); }

  /// Ends it as an operator would (SIGTERM; a persistent one saves), or with SIGKILL.
  void stop();
  void kill();
  /// Neither stopped nor paused.
  [[nodiscard]] bool is_running() const { return pid_ > 0 && !paused_; }
  /// After stop or kill: starts it again where it was.
  void start(Until until = Until::ready);
  void restart() {
    stop();
    start();
  }

  /// Kills a persistent server and starts it again with so much to load that it answers -LOADING for some
  /// seconds. Leaves keys named `ballast:…` behind.
  void restart_into_loading();

  /// Returns once this many replicas have all that was written to this server so far. Throws if that takes
  /// too long. A replica whose link is up may still get nothing: the master streams to it a second later.
  void wait_for_replicas(std::size_t count) const;

  /// Suspends the server: the kernel still accepts connections and bytes, but no answer comes.
  void pause();
  void resume();

 private:
  void end(int signal);
  void write_config() const;
  /// False if it ended before it was ready.
  [[nodiscard]] bool launch(Until until);

  Options options_;
  TempDir directory_;
  std::optional<CertificateAuthority> authority_;
  std::uint16_t port_ = 0;
  std::uint16_t tls_port_ = 0;
  pid_t pid_ = -1;
  bool paused_ = false;
};

/// Why there can be no RedisServer here; empty if there can. Under HOLDFAST_REQUIRE_ALL=1 a reason is thrown:
/// a test failure. A test says `if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;`.
[[nodiscard]] std::string redis_missing();

/// One server for all tests of this program that need nothing but a prefix of their own: the one that
/// REDIS_URL names, else one that is started at the first call and has no persistence.
[[nodiscard]] std::string shared_redis_url();
/// A prefix that no other test uses, of any process.
[[nodiscard]] std::string private_prefix();

}  // namespace holdfast::test
