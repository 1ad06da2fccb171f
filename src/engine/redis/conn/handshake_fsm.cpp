#include "engine/redis/conn/handshake_fsm.hpp"

#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {

namespace {

/// The user, and the source of the password, never the password itself.
std::string describe_credentials(const RedisOptions& options) {
  auto text = options.user.empty() ? std::string("this password for the default user")
                                   : "the user " + options.user + " or its password";
  if (!options.password_file.empty()) text += " (from the file " + options.password_file + ")";
  return text;
}

}  // namespace

Handshake::Handshake(const RedisOptions& options, Servers servers)
    : db_(options.db),
      user_without_password_(!options.user.empty() && options.password.empty()),
      credentials_(describe_credentials(options)),
      servers_(servers) {
  if (!options.user.empty()) {
    ask(Step::authenticate, {"AUTH", options.user, options.password});
  } else if (!options.password.empty()) {
    ask(Step::authenticate, {"AUTH", options.password});
  }
  // Permitted to every user. The connection uses RESP2 already.
  ask(Step::mode, {"HELLO", "2"});
  const auto name = options.client_name.value_or("holdfast");
  if (!name.empty()) ask(Step::name, {"CLIENT SETNAME", name});
  if (options.db != 0) ask(Step::select, {"SELECT", std::to_string(options.db)});
  // A server that cannot serve yet (LOADING) or now (BUSY) answers the other commands, but not this one.
  ask(Step::ping, {"PING"});
}

void Handshake::ask(Step step, const Command& command) {
  request_ += command.bytes();
  waiting_.push_back(step);
}

Result<bool> Handshake::on_reply(const redisReply& reply) {
  if (answered_ == waiting_.size())
    return Error(ErrorCode::Internal, "the server sent more replies than requests");
  const Step step = waiting_[answered_++];
  if (auto error = is_error(reply) ? judge_error(step, reply) : judge(step, reply)) return *std::move(error);
  return answered_ == waiting_.size();
}

std::optional<Error> Handshake::judge(Step step, const redisReply& reply) const {
  if (step == Step::mode) return judge_mode(reply);
  if (text_of(reply) == (step == Step::ping ? "PONG" : "OK")) return std::nullopt;
  return Error(ErrorCode::ServiceUnavailable, "the server at this address is not Redis");
}

/// The reply is pairs of a name and a value. Missing pairs are accepted: proxies answer less.
std::optional<Error> Handshake::judge_mode(const redisReply& reply) const {
  std::string_view mode, role;
  const auto parts = elements_of(reply);
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (text_of(*parts[i]) == "mode") mode = text_of(*parts[i + 1]);
    if (text_of(*parts[i]) == "role") role = text_of(*parts[i + 1]);
  }
  return judge_kind(mode, role);
}

std::optional<Error> Handshake::judge_kind(std::string_view mode, std::string_view role) const {
  if (servers_ == Servers::any) return std::nullopt;
  if (servers_ == Servers::sentinel) {
    if (mode.empty() || mode == "sentinel") return std::nullopt;
    return Error(ErrorCode::InvalidArgument,
                 "this Redis server is not a Sentinel; use redis:// for a server without sentinels");
  }
  if (mode == "cluster" && servers_ != Servers::cluster) {
    return Error(ErrorCode::InvalidArgument, std::string(is_in_cluster));
  }
  if (mode == "standalone" && servers_ == Servers::cluster) {
    return Error(ErrorCode::InvalidArgument,
                 "this Redis server is not a member of a cluster; use redis://HOST");
  }
  if (mode == "sentinel") {
    return Error(
        ErrorCode::InvalidArgument,
        "this is a Redis Sentinel, which stores no data; use redis+sentinel://HOST/SERVICE to find the "
        "master that it watches");
  }
  // Every user may send HELLO, unlike ROLE.
  if (servers_ == Servers::master && !role.empty() && role != "master") {
    return Error(ErrorCode::ServiceUnavailable, "this server is a replica; the failover has not ended");
  }
  return std::nullopt;
}

std::string Handshake::where_to_put_it() const {
  return servers_ == Servers::sentinel
             ? "use sentinel_password_file in the URL, or set HOLDFAST_SENTINEL_PASSWORD"
             : "use password_file in the URL, or set HOLDFAST_REDIS_PASSWORD";
}

std::optional<Error> Handshake::judge_error(Step step, const redisReply& reply) const {
  auto error = error_of(reply);
  const auto error_text = text_of(reply);
  // The name is optional, and a user without the right to PING may still acquire locks; a server that refuses
  // writes (MISCONF) still answers reads; a proxy may not support HELLO.
  const bool is_optional =
      step == Step::name ||
      ((step == Step::mode || step == Step::ping) && error_text.starts_with("NOPERM")) ||
      (step == Step::ping && error_text.starts_with("MISCONF")) ||
      (step == Step::mode && error.code() != ErrorCode::AuthFailed && !error.transient());
  if (is_optional) return std::nullopt;
  if (step == Step::authenticate && !error.transient()) {
    if (user_without_password_) {
      return Error(ErrorCode::AuthFailed,
                   "the server requires a password for this user; " + where_to_put_it(), error.cause());
    }
    if (error_text.find("without any password") != std::string_view::npos) return error;
    // An old server without ACLs answers ERR to a user name; every server answers ERR when no password is
    // set.
    const auto refused = "the server rejected " + credentials_;
    return Error(ErrorCode::AuthFailed,
                 servers_ == Servers::sentinel ? refused +
                                                     "; check sentinel_user, and sentinel_password_file or "
                                                     "HOLDFAST_SENTINEL_PASSWORD"
                                               : refused,
                 error.cause());
  }
  if (step == Step::select && error_text.starts_with("NOPERM")) {
    return Error(
        ErrorCode::AuthFailed,
        "database " + std::to_string(db_) +
            " cannot be used: this user may only use database 0. Grant it +select, or omit the database",
        error.cause());
  }
  if (step == Step::select && !error.transient()) {
    return Error(error.code(), "database " + std::to_string(db_) + " cannot be used", error.cause());
  }
  if (servers_ == Servers::sentinel && error_text.starts_with("NOAUTH")) {
    return Error(error.code(), "the sentinels require a password; " + where_to_put_it());
  }
  return error;
}

}  // namespace holdfast::redis
