#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <holdfast/redis.hpp>
#include <holdfast/result.hpp>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace holdfast::redis {

/// Where a socket connects to.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
};

[[nodiscard]] Result<Address> unix_address(const std::string& path);
/// The host's addresses, in the order to try them. Queries name servers, so it may block for long. With
/// `numeric_only` it does not, and anything but an IP address is an error.
[[nodiscard]] Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port,
                                                   bool numeric_only);

/// Certificates and rules for TLS connections, loaded once. Peers are verified: the chain, and the name.
class TlsContext {
 public:
  /// InvalidArgument names the file that cannot be used.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> load(const RedisOptions& options);
  /// The same certificates and rules, for a server that must prove this name.
  [[nodiscard]] std::shared_ptr<const TlsContext> named(std::string server_name) const;
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class Stream;
  TlsContext(ssl_ctx_st* context, std::string server_name) noexcept;
  ssl_ctx_st* context_;
  std::string server_name_;
};

/// A byte stream to a server, TCP or Unix, with TLS or without. No function blocks. One thread may read while
/// another writes; the owner must ensure that neither happens during destruction.
///
/// Closes with a reset unless `close_politely` was called: bytes written to an abandoned stream should not be
/// carried out later if that can be prevented.
class Stream {
 public:
  /// What to poll for before trying again.
  enum class Progress : std::uint8_t { done, wants_read, wants_write };

  /// Begins to connect.
  [[nodiscard]] static Result<std::unique_ptr<Stream>> connect(const Address& address,
                                                               std::shared_ptr<const TlsContext> tls);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Continues connecting and the TLS handshake, until done.
  [[nodiscard]] Result<Progress> establish();

  /// The number of bytes read; 0 if none have arrived yet. End of file is an error.
  [[nodiscard]] Result<std::size_t> read(std::span<char> into);
  /// True if more may be read without polling first.
  [[nodiscard]] bool has_more() const;
  /// The number of bytes written; 0 if there is no room yet.
  [[nodiscard]] Result<std::size_t> write(std::string_view bytes);

  /// Whether there is nothing to read, not even end of file. For a connection without pending answers: any
  /// input means that it is no longer usable.
  [[nodiscard]] bool is_quiet() const;

  [[nodiscard]] int descriptor() const noexcept { return fd_; }
  /// At least by TCP: the TLS handshake may follow.
  [[nodiscard]] bool is_connected() const noexcept { return stage_ != Stage::connecting; }
  /// Makes a thread that polls the stream see end of file.
  void shut_down() noexcept;
  void close_politely() noexcept { politely_ = true; }

 private:
  enum class Stage : std::uint8_t { connecting, handshaking, open };

  Stream(int fd, std::shared_ptr<const TlsContext> tls) noexcept : fd_(fd), tls_(std::move(tls)) {}
  [[nodiscard]] bool is_connected_to_itself(const sockaddr_storage& peer, socklen_t peer_size) const noexcept;
  Result<Progress> begin_tls();
  Result<Progress> continue_tls();
  [[nodiscard]] Error tls_error(int result, std::string what) const;

  int fd_;
  bool politely_ = false;
  Stage stage_ = Stage::connecting;
  std::shared_ptr<const TlsContext> tls_;
  mutable std::mutex tls_mutex_;  ///< two threads may not use a TLS session at once, unlike a socket
  ssl_st* session_ = nullptr;
};

}  // namespace holdfast::redis
