#include "engine/redis/conn/handshake_fsm.hpp"

#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"

namespace holdfast::redis {

Handshake::Handshake(const RedisOptions& options) : db_(options.db) {
  if (!options.user.empty()) {
    ask(Step::authenticate, {"AUTH", options.user, options.password});
  } else if (!options.password.empty()) {
    ask(Step::authenticate, {"AUTH", options.password});
  }
  if (!options.client_name.empty()) ask(Step::name, {"CLIENT", "SETNAME", options.client_name});
  if (options.db != 0) ask(Step::select, {"SELECT", std::to_string(options.db)});
  // The others are answered by a server that cannot serve yet (LOADING) or now (BUSY).
  ask(Step::ping, {"PING"});
}

void Handshake::ask(Step step, std::initializer_list<std::string_view> command) {
  request_ += Command(command).bytes();
  waiting_.push_back(step);
}

Result<bool> Handshake::on_reply(const redisReply& reply) {
  if (answered_ == waiting_.size())
    return Error(ErrorCode::Internal, "the server answers more than was asked");
  const Step step = waiting_[answered_++];
  if (is_error(reply)) {
    auto error = error_of(reply);
    // A name is a courtesy, and a user without the right to ask PING may still take locks; a server that
    // refuses writes (MISCONF) still answers questions.
    const auto said = text_of(reply);
    const bool only_a_courtesy =
        (step == Step::name && said.starts_with("NOPERM")) ||
        (step == Step::ping && (said.starts_with("NOPERM") || said.starts_with("MISCONF")));
    // An old server without ACLs says ERR to a user name; anyone says ERR when no password is set.
    if (step == Step::authenticate && !error.transient()) {
      return Error(ErrorCode::AuthFailed, "the server refuses this user or password", error.cause());
    }
    if (step == Step::select && !error.transient()) {
      return Error(error.code(), "database " + std::to_string(db_) + " cannot be used", error.cause());
    }
    if (!only_a_courtesy) return error;
  }
  return answered_ == waiting_.size();
}

}  // namespace holdfast::redis
