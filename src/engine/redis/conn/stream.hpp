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
/// The host's addresses, in the order to try them. Asks name servers, so it may block for long, unless
/// `numeric_only`: then anything but an IP address is an error.
[[nodiscard]] Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port,
                                                   bool numeric_only);

/// Certificates and rules for TLS connections, loaded once. Peers are verified: the chain, and the name.
class TlsContext {
 public:
  /// InvalidArgument names the file that cannot be used.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> load(const RedisOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class Stream;
  TlsContext(ssl_ctx_st* context, std::string server_name) noexcept;
  ssl_ctx_st* context_;
  std::string server_name_;
};

/// A byte stream to a server, TCP or Unix, with TLS or without. Nothing here blocks. One thread may read
/// while another writes; whoever destroys it makes sure that no one does either.
///
/// Ends abortively (a reset, not a polite close), unless `close_politely` was called: what was written on a
/// stream that we gave up should not be carried out later if that can be helped.
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

  /// Goes on with connecting and the TLS handshake, until done.
  [[nodiscard]] Result<Progress> establish();

  /// How many bytes came; none if there is nothing yet. An end of file is an error.
  [[nodiscard]] Result<std::size_t> read(std::span<char> into);
  /// True if more may be read without polling first.
  [[nodiscard]] bool has_more() const;
  /// How many bytes went; none if there is no room yet.
  [[nodiscard]] Result<std::size_t> write(std::string_view bytes);

  /// Whether nothing is there to be read, not even the end. For a connection that owes no answer: anything
  /// that came means that it cannot be used any more.
  [[nodiscard]] bool is_quiet() const;

  [[nodiscard]] int descriptor() const noexcept { return fd_; }
  /// Lets a thread that polls it see its end.
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
  mutable std::mutex tls_mutex_;  ///< a TLS session, unlike a socket, is not for two threads
  ssl_st* session_ = nullptr;
};

}  // namespace holdfast::redis
