#include "engine/redis/conn/server_dialer.hpp"

#include <poll.h>

#include <array>
#include <mutex>
#include <optional>

#include "os/errno_error.hpp"
#include "os/event.hpp"
#include "os/thread.hpp"

namespace holdfast::redis {
struct Resolution::State {
  os::Event ended;
  std::mutex mutex;
  std::optional<Result<std::vector<Address>>> answer;
};

Result<Resolution> Resolution::start(const std::string& host, std::uint16_t port) {
  try {
    auto state = std::make_shared<State>();
    os::start_thread([state, host, port] {
      auto answer = resolve(host, port, false);
      {
        const std::lock_guard lock(state->mutex);
        state->answer.emplace(std::move(answer));
      }
      state->ended.set();
    }).detach();
    return Resolution(std::move(state));
  } catch (const Error& no_event) {
    return no_event;
  } catch (const std::system_error& failed) {
    return Error(ErrorCode::ServiceUnavailable, "cannot start a thread to resolve the host name",
                 failed.what());
  }
}

int Resolution::descriptor() const noexcept {
  return state_->ended.descriptor();
}

bool Resolution::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->answer.has_value();
}

Result<std::vector<Address>> Resolution::take() {
  const std::lock_guard lock(state_->mutex);
  return *std::move(state_->answer);
}

namespace {

/// "5 s", "0.3 s"
std::string seconds_text(BootClock::duration length) {
  const auto tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(length).count();
  const auto fraction = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + fraction + " s";
}

}  // namespace

ServerDialer::ServerDialer(Target target, BootTime began, BootTime deadline)
    : target_(std::move(target)),
      began_(began),
      deadline_(deadline),
      handshake_(target_.options, target_.servers),
      request_(handshake_.request() + target_.question) {}

std::string ServerDialer::scheme(bool tls) const {
  const auto servers = target_.servers;
  return std::string(tls ? "rediss" : "redis") + (servers == Servers::cluster ? "+cluster://"
                                                  : servers == Servers::sentinel || servers == Servers::master
                                                      ? "+sentinel://"
                                                      : "://");
}

Error ServerDialer::no_connection(BootClock::duration waited) const {
  const bool tls = target_.options.tls;
  // A node of a cluster gets less: there are others.
  const bool is_limit = waited >= target_.options.connect_timeout && target_.servers != Servers::cluster;
  const auto within = " within " + seconds_text(waited) + (is_limit ? " (connect_timeout)" : "");
  if (!resolved_) return {ErrorCode::NetworkTimeout, "the host name was not resolved" + within};
  if (!established_) {
    if (!tls || !stream_ || !stream_->is_connected())
      return {ErrorCode::NetworkTimeout, "no connection" + within + target_.if_unreachable};
    return {ErrorCode::NetworkTimeout, "connected, but the server did not begin TLS" + within +
                                           ". Check that it is not blocked; for a port without TLS use " +
                                           scheme(false)};
  }
  return {ErrorCode::NetworkTimeout,
          "connected, but the server did not answer" + within +
              (tls ? ". Check that it is not blocked"
                   : ". Check that it is not blocked; for a TLS port use " + scheme(true))};
}

/// A TLS server sees our first command as a bad handshake: it closes, maybe after an alert.
Error ServerDialer::not_greeted(const Error& error) const {
  if (answered_ || target_.options.tls) return error;
  return {ErrorCode::ServiceUnavailable,
          "no Redis server answers at this address; for a TLS port use " + scheme(true),
          error.cause().empty() ? error.message() : error.message() + ": " + error.cause()};
}

Error ServerDialer::unreachable(const Error& error) const {
  return {error.code(), error.message() + target_.if_unreachable, error.cause()};
}

/// A server without TLS closes, or answers as Redis does.
Error ServerDialer::not_secured(const Error& error) const {
  if (!target_.options.tls || error.code() == ErrorCode::AuthFailed) return error;
  return {error.code(), error.message() + "; for a port without TLS use " + scheme(false), error.cause()};
}

ServerDialer::Outcome ServerDialer::step(BootTime now) {
  if (now >= deadline_) return no_connection(deadline_ - began_);
  using Stage = Result<Blocked> (ServerDialer::*)(BootTime);
  for (const Stage stage :
       std::array<Stage, 3>{&ServerDialer::find_addresses, &ServerDialer::establish, &ServerDialer::greet}) {
    const auto blocked = (this->*stage)(now);
    if (!blocked) return blocked.error();
    if (*blocked) return **blocked;
  }
  Connection made{.stream = std::move(stream_), .reader = std::move(reader_)};
  return made;
}

Result<ServerDialer::Blocked> ServerDialer::find_addresses(BootTime) {
  if (resolved_) return Blocked();
  const auto& options = target_.options;
  if (!options.unix_socket.empty()) {
    const auto address = unix_address(options.unix_socket);
    if (!address) return address.error();
    addresses_.push_back(*address);
  } else if (const auto literal = resolve(options.host, options.port, true)) {
    addresses_.assign(literal->begin(), literal->end());
  } else {
    if (!resolution_) {
      auto started = Resolution::start(options.host, options.port);
      if (!started) return started.error();
      resolution_.emplace(*std::move(started));
    }
    if (!resolution_->ended()) return Blocked(PendingIo{resolution_->descriptor(), POLLIN});
    const auto answer = resolution_->take();
    resolution_.reset();
    if (!answer) return answer.error();
    addresses_.assign(answer->begin(), answer->end());
  }
  resolved_ = true;
  return Blocked();
}

Result<ServerDialer::Blocked> ServerDialer::establish(BootTime now) {
  if (established_) return Blocked();
  Error last(ErrorCode::ServiceUnavailable, "the host name has no addresses");
  for (;;) {
    if (!stream_) {
      if (addresses_.empty()) return unreachable(last);
      auto begun = Stream::connect(addresses_.front(), target_.tls);
      addresses_.pop_front();
      if (!begun) {
        last = begun.error();
        continue;
      }
      stream_ = *std::move(begun);
      // An address that does not answer leaves time for the next ones.
      address_until_ = now + (deadline_ - now) / static_cast<BootClock::rep>(addresses_.size() + 1);
    } else if (now >= address_until_ && !addresses_.empty()) {
      stream_.reset();
      continue;
    }
    const auto progress = stream_->establish();
    if (!progress) {
      last = stream_->is_connected() ? not_secured(progress.error()) : progress.error();
      stream_.reset();
      continue;
    }
    if (*progress == Stream::Progress::done) break;
    return Blocked(
        PendingIo{stream_->descriptor(),
                  static_cast<short>(*progress == Stream::Progress::wants_read ? POLLIN : POLLOUT)});
  }
  established_ = true;
  address_until_ = never;
  return Blocked();
}

Result<ServerDialer::Blocked> ServerDialer::greet(BootTime) {
  while (greeted_ < request_.size()) {
    const auto written = stream_->write(std::string_view(request_).substr(greeted_));
    if (!written) return written.error();
    if (*written == 0) return Blocked(PendingIo{stream_->descriptor(), POLLOUT});
    greeted_ += *written;
  }
  while (!ready_ || answers_.size() < target_.answers) {
    auto reply = reader_.next();
    if (!reply) return not_greeted(reply.error());
    if (*reply) {
      answered_ = true;
      if (ready_) {
        answers_.push_back(**std::move(reply));
        continue;
      }
      const auto ready = handshake_.on_reply(***reply);
      if (!ready) return ready.error();
      ready_ = *ready;
      if (ready_ && target_.answers == 0 && reader_.has_more()) {
        return Error(ErrorCode::Internal, "the server sent more replies than requests");
      }
      continue;
    }
    std::array<char, 4096> bytes;
    const auto count = stream_->read(bytes);
    if (!count) return not_greeted(count.error());
    if (*count == 0) return Blocked(PendingIo{stream_->descriptor(), POLLIN});
    reader_.feed({bytes.data(), *count});
  }
  return Blocked();
}

}  // namespace holdfast::redis
