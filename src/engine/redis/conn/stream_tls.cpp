// The TLS half of Stream: certificates, verification, the handshake.

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "engine/redis/conn/stream.hpp"

namespace holdfast::redis {
namespace {

/// The oldest error of this thread's queue, which is the most specific; clears the queue.
std::string openssl_reason() {
  const auto number = ERR_get_error();
  ERR_clear_error();
  if (number == 0) return {};
  std::array<char, 256> text{};
  ERR_error_string_n(number, text.data(), text.size());
  return text.data();
}

int descriptor_of(BIO* bio) {
  return *static_cast<const int*>(BIO_get_data(bio));
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a peer that closed would kill the program.
int bio_write(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const auto sent = send(descriptor_of(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const auto received = recv(descriptor_of(bio), bytes, static_cast<std::size_t>(count), 0);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (received == 0) errno = 0;  // closed, not failed: see tls_error
  return static_cast<int>(received);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "holdfast socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

bool is_ip_address(const std::string& name) {
  in6_addr parsed{};
  return inet_pton(AF_INET, name.c_str(), &parsed) == 1 || inet_pton(AF_INET6, name.c_str(), &parsed) == 1;
}

}  // namespace

TlsContext::TlsContext(ssl_ctx_st* context, std::string server_name) noexcept
    : context_(context), server_name_(std::move(server_name)) {}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

std::shared_ptr<const TlsContext> TlsContext::named(std::string server_name) const {
  SSL_CTX_up_ref(context_);
  return std::shared_ptr<const TlsContext>(new TlsContext(context_, std::move(server_name)));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const RedisOptions& options) {
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return Error(ErrorCode::Internal, "TLS cannot be used", openssl_reason());
  const auto& name = options.tls_server_name.empty() ? options.host : options.tls_server_name;
  std::shared_ptr<const TlsContext> loaded(new TlsContext(context, name));

  const auto unusable = [](const std::string& what, const std::string& file) {
    return Error(ErrorCode::InvalidArgument, what + " " + file + " cannot be used", openssl_reason());
  };
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);  // so that a write never waits for input
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.tls_ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, options.tls_ca_file.c_str()) != 1) {
    return unusable("the file of certificate authorities", options.tls_ca_file);
  }
  if (!options.tls_cert_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, options.tls_cert_file.c_str()) != 1) {
      return unusable("the client certificate", options.tls_cert_file);
    }
    if (SSL_CTX_use_PrivateKey_file(context, options.tls_key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
      return unusable("the client's private key", options.tls_key_file);
    }
  }
  return loaded;
}

Result<Stream::Progress> Stream::begin_tls() {
  const std::lock_guard lock(tls_mutex_);
  ERR_clear_error();
  session_ = SSL_new(tls_->context_);
  BIO* bio = BIO_new(socket_method());
  if (session_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return Error(ErrorCode::Internal, "TLS cannot be used", openssl_reason());
  }
  BIO_set_data(bio, &fd_);  // the session, and so its BIO, is destroyed before this object
  BIO_set_init(bio, 1);
  SSL_set_bio(session_, bio, bio);
  const auto& name = tls_->server_name_;
  if (is_ip_address(name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_), name.c_str());
  } else {
    SSL_set1_host(session_, name.c_str());
    SSL_set_tlsext_host_name(session_, name.c_str());
  }
  SSL_set_connect_state(session_);
  return Progress::wants_write;
}

Result<Stream::Progress> Stream::continue_tls() {
  const std::lock_guard lock(tls_mutex_);
  ERR_clear_error();
  const int result = SSL_do_handshake(session_);
  if (result == 1) {
    stage_ = Stage::open;
    return Progress::done;
  }
  switch (SSL_get_error(session_, result)) {
    case SSL_ERROR_WANT_READ:
      return Progress::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return Progress::wants_write;
    default:
      break;
  }
  if (const auto verdict = SSL_get_verify_result(session_); verdict != X509_V_OK) {
    ERR_clear_error();
    return Error(ErrorCode::AuthFailed,
                 "the server's certificate is not trusted for \"" + tls_->server_name_ +
                     "\"; set the authority that signed it (tls_ca) or the name in it "
                     "(tls_server_name)",
                 X509_verify_cert_error_string(verdict));
  }
  return tls_error(result, "the TLS handshake failed");
}

Error Stream::tls_error(int result, std::string what) const {
  const int number = errno;
  auto reason = openssl_reason();
  if (reason.empty()) {
    reason = SSL_get_error(session_, result) == SSL_ERROR_SYSCALL && number != 0
                 ? std::generic_category().message(number)
                 : "the server closed the connection";
  }
  const auto code = number == ETIMEDOUT ? ErrorCode::NetworkTimeout : ErrorCode::ServiceUnavailable;
  return {code, std::move(what), std::move(reason)};
}

}  // namespace holdfast::redis
