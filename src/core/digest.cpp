#include "core/digest.hpp"

#include <openssl/evp.h>

namespace holdfast::core {

Result<Sha256> sha256(std::string_view text) {
  Sha256 digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return Error(ErrorCode::Internal, "SHA-256 is not available from OpenSSL");
  }
  return digest;
}

void base64url(std::span<const unsigned char> bytes, char* out) noexcept {
  static constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  for (; bytes.size() >= 3; bytes = bytes.subspan(3)) {
    const auto group = static_cast<unsigned>(bytes[0] << 16 | bytes[1] << 8 | bytes[2]);
    *out++ = alphabet[group >> 18U];
    *out++ = alphabet[group >> 12U & 63U];
    *out++ = alphabet[group >> 6U & 63U];
    *out++ = alphabet[group & 63U];
  }
  if (bytes.empty()) return;
  const auto rest = static_cast<unsigned>(bytes[0] << 8 | (bytes.size() == 2 ? bytes[1] : 0));
  *out++ = alphabet[rest >> 10U];
  *out++ = alphabet[rest >> 4U & 63U];
  if (bytes.size() == 2) *out = alphabet[rest << 2U & 63U];
}

std::string base64url(std::span<const unsigned char> bytes) {
  std::string text((bytes.size() * 8 + 5) / 6, '\0');
  base64url(bytes, text.data());
  return text;
}

}  // namespace holdfast::core
