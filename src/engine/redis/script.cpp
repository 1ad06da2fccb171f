#include "engine/redis/script.hpp"

#include <openssl/evp.h>

#include <array>
#include <charconv>
#include <holdfast/error.hpp>

#include "engine/redis/wire/reply.hpp"

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

std::vector<std::string> undeclared_keys(const redisReply& reply) {
  constexpr long long undeclared = -9;
  std::vector<std::string> keys;
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements < 2) return keys;
  const auto parts = elements_of(reply);
  if (integer_of(*parts[0]) != undeclared) return keys;
  for (const auto* key : parts.subspan(1)) keys.emplace_back(text_of(*key));
  return keys;
}

RoutedCommand with_keys(const RoutedCommand& call, std::span<const std::string> keys) {
  const std::string_view bytes = call.bytes;
  std::size_t at = 0;
  // A line `*N` or `$N`: N.
  const auto number = [&] {
    std::size_t value = 0;
    const auto end = bytes.find("\r\n", at);
    (void)std::from_chars(bytes.data() + at + 1, bytes.data() + end, value);
    at = end + 2;
    return value;
  };
  const auto argument = [&] {
    const auto size = number();
    at += size + 2;
    return bytes.substr(at - size - 2, size);
  };
  const auto arguments = number();
  const auto name_at = at;
  argument();
  argument();
  const auto count_at = at;
  std::size_t count = 0;
  const auto count_text = argument();
  (void)std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
  const auto keys_at = at;
  for (std::size_t i = 0; i < count; ++i) argument();

  const auto bulk = [](std::string_view text) {
    return std::string("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
  };
  auto longer = "*" + std::to_string(arguments + keys.size()) + "\r\n";
  longer.append(bytes.substr(name_at, count_at - name_at)).append(bulk(std::to_string(count + keys.size())));
  const auto before_keys = longer.size() - keys_at;
  longer.append(bytes.substr(keys_at, at - keys_at));
  for (const auto& key : keys) longer += bulk(key);
  longer.append(bytes.substr(at));
  auto changed = call;
  if (changed.fence_floor_at != std::string::npos) changed.fence_floor_at += longer.size() - bytes.size();
  changed.key_at += static_cast<std::uint32_t>(before_keys);
  changed.bytes = std::move(longer);
  return changed;
}

}  // namespace holdfast::redis
