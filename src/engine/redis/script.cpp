#include "engine/redis/script.hpp"

#include <openssl/evp.h>

#include <array>
#include <holdfast/error.hpp>

namespace holdfast::redis {
namespace {

std::string sha1_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha1(), nullptr) != 1) {
    throw Error(ErrorCode::Internal, "SHA-1, by which Redis names scripts, is not available from OpenSSL");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  hex.reserve(std::size_t{2} * length);
  for (unsigned i = 0; i < length; ++i) {
    hex += digits[digest[i] >> 4U];
    hex += digits[digest[i] & 0x0FU];
  }
  return hex;
}

}  // namespace

Script::Script(std::string_view lua) : text(lua), sha1(sha1_hex(lua)) {}

Command call_script(const Script& script, By by, std::size_t keys, std::size_t arguments) {
  auto command = by == By::sha ? Command::begin("EVALSHA", 2 + keys + arguments)
                               : Command::begin("EVAL", 2 + keys + arguments);
  command.add(by == By::sha ? std::string_view(script.sha1) : script.text);
  command.add(std::to_string(keys));
  return command;
}

}  // namespace holdfast::redis
