#include "engine/redis/wire/errors.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

struct Meaning {
  std::string_view mark;
  ErrorCode code;
  std::string_view message;
  bool before_writing = false;  ///< see refused_before_writing
};

constexpr std::string_view no_permission =
    "this Redis user lacks a right; grant the rights that `holdfast doctor --acl` prints";
constexpr std::string_view no_password =
    "Redis requires a password; use password_file in the URL, or set HOLDFAST_REDIS_PASSWORD";
constexpr std::string_view bad_credentials = "Redis rejected the user or password";
constexpr std::string_view bad_request = "Redis rejected the arguments of a command";
constexpr std::string_view wrong_type = "WRONGTYPE", readonly = "READONLY", master_down = "MASTERDOWN";

/// Replies that are recognised by their first word.
constexpr std::array by_word = {
    Meaning{"NOAUTH", ErrorCode::AuthFailed, no_password, true},
    Meaning{"WRONGPASS", ErrorCode::AuthFailed, bad_credentials},
    Meaning{"NOPERM", ErrorCode::AuthFailed, no_permission},
    Meaning{"DENIED", ErrorCode::AuthFailed,
            "Redis is in protected mode and accepts local connections only; give it a password or a bind "
            "address"},
    Meaning{wrong_type, ErrorCode::InvalidArgument,
            "a Redis key of this store holds a value of another type; choose another key or prefix"},
    Meaning{"LOADING", ErrorCode::ServiceUnavailable, "Redis is still loading its data", true},
    Meaning{readonly, ErrorCode::ServiceUnavailable,
            "this Redis server is a read-only replica; use its master", true},
    Meaning{master_down, ErrorCode::ServiceUnavailable, "this Redis server is a replica that lost its master",
            true},
    Meaning{"MOVED", ErrorCode::InvalidArgument, is_in_cluster, true},
    Meaning{"ASK", ErrorCode::InvalidArgument, is_in_cluster, true},
    Meaning{"CROSSSLOT", ErrorCode::InvalidArgument,
            "the keys of this operation are in several slots of the Redis cluster; use a prefix with a {tag}",
            true},
    Meaning{"CLUSTERDOWN", ErrorCode::ServiceUnavailable, "the Redis cluster is down", true},
    Meaning{"TRYAGAIN", ErrorCode::ServiceUnavailable, "the Redis cluster is moving these keys", true},
    Meaning{"BUSY", ErrorCode::ServiceUnavailable, "Redis is busy with a long-running script", true},
    Meaning{"MISCONF", ErrorCode::ServiceUnavailable,
            "Redis rejects writes because it cannot save its data; check its log and disk", true},
    Meaning{"NOREPLICAS", ErrorCode::ServiceUnavailable,
            "Redis rejects writes because too few replicas are connected", true},
    Meaning{"OOM", ErrorCode::RateLimited, "Redis is out of memory (maxmemory)", true},
};

/// General replies, `ERR ...`, which are recognised by their text.
constexpr std::array by_text = {
    // A right that a script lacks: in the words of Redis 7.0, and of Redis 7.2 and Valkey.
    Meaning{"The user executing the script can't", ErrorCode::AuthFailed, no_permission},
    Meaning{"ACL failure in script", ErrorCode::AuthFailed, no_permission},
    // Before NOAUTH: a command of more than ten words.
    Meaning{"Protocol error: unauthenticated", ErrorCode::AuthFailed, no_password, true},
    Meaning{"AUTH <password> called without any password", ErrorCode::AuthFailed,
            "this Redis server has no password; omit the password, or name the user"},
    Meaning{"invalid password", ErrorCode::AuthFailed, bad_credentials},
    Meaning{"max number of clients", ErrorCode::ServiceUnavailable,
            "Redis has no free connection (maxclients)"},
    Meaning{"attempted to access a non local key", ErrorCode::ServiceUnavailable,
            "the Redis cluster is moving these keys"},
    Meaning{"Script killed by user", ErrorCode::ServiceUnavailable, "the script was killed (SCRIPT KILL)"},
    Meaning{"DB index is out of range", ErrorCode::InvalidArgument,
            "this Redis server has no database with that number"},
    Meaning{"invalid DB index", ErrorCode::InvalidArgument,
            "this Redis server has no database with that number"},
    Meaning{"syntax error", ErrorCode::InvalidArgument, bad_request},
    Meaning{"invalid expire time", ErrorCode::InvalidArgument, bad_request},
    Meaning{"wrong number of arguments", ErrorCode::InvalidArgument, bad_request},
    Meaning{"INVALID", ErrorCode::InvalidArgument, bad_request},
};

std::string_view take_word(std::string_view& text) {
  const auto word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

const Meaning* meaning_of_word(std::string_view word) {
  const auto* found = std::ranges::find(by_word, word, &Meaning::mark);
  return found == by_word.end() ? nullptr : found;
}

const Meaning* meaning_of(std::string_view text) {
  std::string_view rest = text;
  if (const auto* meaning = meaning_of_word(take_word(rest))) return meaning;
  // Before 7.0 a script's error came wrapped: "ERR Error running script (...): @user_script: 1: -OOM ..."
  if (rest.starts_with("Error running script")) {
    while (!rest.empty()) {
      auto word = take_word(rest);
      if (word.starts_with('-')) word.remove_prefix(1);
      if (const auto* meaning = meaning_of_word(word)) return meaning;
    }
  }
  const auto* found = std::ranges::find_if(
      by_text, [&](const Meaning& meaning) { return text.find(meaning.mark) != std::string_view::npos; });
  return found == by_text.end() ? nullptr : found;
}

}  // namespace

std::string_view server_text(const redisReply& reply) noexcept {
  const auto text = text_of(reply);
  // An unknown command is quoted back with its arguments.
  return text.substr(0, text.find(", with args beginning with"));
}

Error error_of(const redisReply& reply) {
  const auto* meaning = meaning_of(text_of(reply));
  std::string cause(server_text(reply));
  if (meaning == nullptr) return Error(ErrorCode::Internal, "unexpected Redis error", std::move(cause));
  // The server's own text is about HELLO, which no user has sent.
  if (cause.starts_with("NOAUTH HELLO")) cause = "NOAUTH";
  return Error(meaning->code, std::string(meaning->message), std::move(cause));
}

Error error_of(const redisReply& reply, std::string_view key) {
  auto error = error_of(reply);
  const auto* const meaning = meaning_of(text_of(reply));
  if (meaning == nullptr || meaning->mark != wrong_type || key.empty()) return error;
  // Quoted, as every key in a message: the log of the command line replaces it by its hash.
  return Error(error.code(), "\"" + std::string(key) + "\": " + error.message(), error.cause());
}

bool is_from_replica(const redisReply& reply) noexcept {
  if (!is_error(reply)) return false;
  const auto* meaning = meaning_of(text_of(reply));
  return meaning != nullptr && (meaning->mark == readonly || meaning->mark == master_down);
}

bool refused_before_writing(const redisReply& reply) noexcept {
  if (!is_error(reply)) return false;
  const auto* meaning = meaning_of(text_of(reply));
  return meaning != nullptr && meaning->before_writing;
}

bool is_wrong_type(const redisReply& reply) noexcept {
  if (!is_error(reply)) return false;
  const auto* meaning = meaning_of(text_of(reply));
  return meaning != nullptr && meaning->mark == wrong_type;
}

bool is_noscript(const redisReply& reply) noexcept {
  return is_error(reply) && text_of(reply).starts_with("NOSCRIPT");
}

}  // namespace holdfast::redis
