#include "core/sha256.hpp"

#include <openssl/evp.h>

namespace holdfast::core {

Result<Sha256> sha256(std::string_view text) {
  Sha256 digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return Error(ErrorCode::Internal, "SHA-256 is not available from OpenSSL");
  }
  return digest;
}

}  // namespace holdfast::core
