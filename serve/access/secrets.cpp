#include "serve/access/secrets.hpp"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <holdfast/error.hpp>

namespace holdfast::serve {

bool equal_secrets(std::string_view left, std::string_view right) noexcept {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string new_secret() {
  std::array<unsigned char, 32> bytes{};
  // Reads of up to 256 bytes are not interrupted once the kernel has its first random bytes.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorCode::Internal, "serve: the kernel has no random bytes", std::strerror(errno));
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

void Sessions::add(std::string id, Clock::time_point now) {
  if (sessions_.size() == limit) sessions_.pop_front();
  sessions_.push_back({.id = std::move(id), .until = now + lifetime});
}

bool Sessions::contains(std::string_view id, Clock::time_point now) {
  while (!sessions_.empty() && sessions_.front().until <= now) sessions_.pop_front();
  bool found = false;
  // All of them, so that the time does not tell which one is similar.
  for (const auto& session : sessions_) found = equal_secrets(session.id, id) || found;
  return found;
}

void Sessions::remove(std::string_view id) {
  std::erase_if(sessions_, [&](const Session& session) { return equal_secrets(session.id, id); });
}

}  // namespace holdfast::serve
