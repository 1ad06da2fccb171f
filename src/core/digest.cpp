#include "core/digest.hpp"

#include <openssl/evp.h>

#include <algorithm>

namespace holdfast::core {

Result<Sha256> sha256(std::string_view text) {
  Sha256 digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return Error(ErrorCode::Internal, "SHA-256 is not available from OpenSSL");
  }
  return digest;
}

std::string base64url(std::span<const unsigned char> bytes) {
  // EVP_EncodeBlock pads to groups of four and adds a NUL.
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                  static_cast<int>(bytes.size()));
  text.resize((bytes.size() * 8 + 5) / 6);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

}  // namespace holdfast::core
