#include "engine/redis/client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <ranges>
#include <utility>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/errors.hpp"
#include "os/random.hpp"

namespace holdfast::redis {
namespace {

constexpr std::size_t read_size = std::size_t{64} << 10;
/// A peer that sends endlessly must not keep the leader from checking deadlines.
constexpr int most_reads = 16;
/// One write is at most about this long, so that a long queue does not become one huge buffer.
constexpr std::size_t write_size = std::size_t{256} << 10;
constexpr std::size_t completions_per_write = 32;
/// After this many completions, a guest checks whether it is called.
constexpr std::size_t completions_per_call = 256;
constexpr std::size_t most_guest_descriptors = 2;
constexpr BootClock::duration longest_patience = std::chrono::hours(1);
/// poll's clock stands still while the machine is suspended; short sleeps bound how late a deadline is
/// noticed after resume.
constexpr BootClock::duration longest_sleep = std::chrono::seconds(1);
/// A connection that was idle for this long may have been closed: only then a check costs a system call, not
/// with every call. Without it, the kernel accepts a write to a closed connection, and the outcome is
/// unknown.
constexpr BootClock::duration look_after_idle = std::chrono::milliseconds(100);
/// A replica found this much later than the last one is a new failover.
constexpr BootClock::duration one_failover = std::chrono::seconds(10);

timespec time_until(BootTime at, BootTime now) {
  const auto left = std::clamp<BootClock::duration>(at - now, BootClock::duration::zero(), longest_sleep);
  const auto whole = std::chrono::floor<std::chrono::seconds>(left);
  return {.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
}

/// A written command may have been carried out, whatever prevents the resend: so the error is transient.
Error unknown_because(const Error& error) {
  if (error.transient()) return error;
  return {ErrorCode::ServiceUnavailable, error.message(), error.cause()};
}

/// A call that a thread waits for.
struct BlockingCall final : Call {
  explicit BlockingCall(Slot<Reply>& slot) : done(Done<Reply>::into(slot)) { awaited = true; }
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override { done(std::move(answer)); }
  Done<Reply> done;
};

}  // namespace

void Call::OnStop::operator()() const noexcept {
  call->stopped_.store(true);
  client->on_stop();
}

Client::Client(std::shared_ptr<const Endpoint> endpoint)
    : endpoint_(std::move(endpoint)), buffer_(read_size) {}

std::shared_ptr<Client> Client::make(std::shared_ptr<const Endpoint> endpoint) {
  // A forked child leaks its copy untouched: a thread of the parent may have been changing it, and the socket
  // is the parent's.
  return {new Client(std::move(endpoint)), [](Client* client) {
            if (client->process_.is_current()) delete client;
          }};
}

Client::~Client() {
  if (connection_ && sent_.empty()) connection_->stream->close_politely();
}

void Client::close() {
  if (!process_.is_current()) return;
  Lock lock(mutex_);
  if (i_lead()) return;  // the background leader owns us, and continues until all calls are completed
  // The guest may be this thread, or one that is ending.
  guest_expected_ = false;
  wake_guest_ = nullptr;
  appoint(lock);
  drained_.wait(lock, [this] { return unawaited_ == 0; });
}

bool Client::i_lead() const noexcept {
  return leading_ && leader_ == std::this_thread::get_id();
}

void Client::send(std::unique_ptr<Call> call, const std::stop_token& stop) {
  // Its completion may be user code: it must run neither on a guest, nor on a thread that stops leading when
  // the machine has no thread left.
  if (!call->awaited && !call->by_idle_io && !background_leader_.ensure_thread()) {
    auto& refused = *call;
    return refused.finish(
        std::move(call),
        Error(ErrorCode::ServiceUnavailable, "cannot start the thread that waits for the server's reply"));
  }
  if (stop.stop_possible()) call->on_stop_.emplace(stop, Call::OnStop{this, call.get()});
  call->sent_ = false;  // a copy from before this send was answered
  Lock lock(mutex_);
  look_at_ = std::min(look_at_, call->stopped_ ? BootTime{} : call->deadline);
  const bool awaited = call->awaited;
  const bool by_idle_io = call->by_idle_io;
  unsent_.push_back(std::move(call));
  if (!awaited) ++unawaited_;
  if (by_idle_io) ++by_idle_io_;
  if (i_lead()) return;  // called in a completion: written with the others after all completions have run
  if (by_idle_io) {
    guest_expected_ = true;
    return;
  }
  flush(lock);
  if (leading_) {
    // The leader's poll was set before this call's deadline was known. Earlier deadlines are rare.
    if (look_at_ < planned_wake_ || guest_must_leave()) wake_leader();
  } else {
    appoint(lock);
  }
}

Result<Reply> Client::call(Command command, BootTime deadline, bool fail_fast) {
  return call_bytes(std::move(command).bytes(), deadline, fail_fast);
}

Result<Reply> Client::call_bytes(std::string bytes, BootTime deadline, bool fail_fast) {
  Slot<Reply> slot;
  auto call = std::make_unique<BlockingCall>(slot);
  call->bytes = std::move(bytes);
  call->deadline = deadline;
  call->patience = endpoint_->options().command_timeout;
  call->fail_fast = fail_fast;
  send(std::move(call), {});
  wait(slot.completion);
  return *std::move(slot.result);
}

void Client::wait(Completion& completion) {
  detail::Trampoline::drain();
  if (completion.finished()) return;
  const auto self = shared_from_this();  // a completion run here may drop the last owner
  Lock lock(mutex_);
  while (!completion.finished()) {
    // A blocking completion runs on the leader itself, which then continues to lead, one level deeper.
    if (!leading_ || i_lead()) {
      lead(lock, [&] { return completion.finished(); });
      break;
    }
    followers_.push_back(&completion);
    lock.unlock();
    completion.wait_for_news();
    lock.lock();
    std::erase(followers_, &completion);
  }
  if (!leading_) appoint(lock);
}

void Client::run_until_readable(int descriptor) noexcept {
  pollfd called{.fd = descriptor, .events = POLLIN, .revents = 0};
  (void)lead_as_guest(std::span(&called, descriptor < 0 ? 0 : 1), never, nullptr);
}

bool Client::lead_as_guest(std::span<pollfd> called_by, BootTime until, os::Event* wake) noexcept {
  if (!process_.is_current()) return false;
  const auto self = shared_from_this();  // a completion may drop the last owner
  Lock lock(mutex_);
  guest_expected_ = false;
  wake_guest_ = nullptr;
  if (by_idle_io_ == 0) return false;
  const bool comes_back = !called_by.empty();
  if (leading_) {
    if (comes_back) wake_guest_ = wake;
    if (!unsent_.empty()) wake_leader();  // the leader writes what we queued
    return false;
  }
  if (comes_back) {
    guest_ = called_by;
    guest_until_ = until;
    guest_called_ = false;
    bool last_turn = false;
    lead(lock, [&] {
      if (by_idle_io_ == 0 || guest_must_leave()) return true;
      if (until != never && BootClock::now() >= until) guest_called_ = true;
      // A guest that is called away still completes some answered calls. Otherwise, if work falls due faster
      // than it is done, the guest would only send and never complete.
      return guest_called_ && (finished_.empty() || std::exchange(last_turn, true));
    });
    guest_ = {};
    guest_until_ = never;
    // The guest comes back, so no other thread has to be woken or started for its calls.
    guest_expected_ = guest_called_;
  }
  const bool led = comes_back && unawaited_ == by_idle_io_;
  appoint(lock);
  return led;
}

bool Client::guest_must_leave() const noexcept {
  return !guest_.empty() && unawaited_ > by_idle_io_;
}

/// Appoints a leader if one is needed. Every thread that stops leading or waiting calls it, so that a thread
/// that was nudged but has already finished passes the turn on.
void Client::appoint(Lock& lock) {
  if (leading_) return;
  if (!followers_.empty()) return followers_.front()->nudge();
  if (unawaited_ == 0 || background_) return;
  if (unawaited_ == by_idle_io_) {
    if (wake_guest_ != nullptr) {
      guest_expected_ = true;
      std::exchange(wake_guest_, nullptr)->set();
    }
    if (guest_expected_) return;
  }
  background_ = true;
  // Without the mutex: if the machine has no thread, the job runs here at once. Then the only pending calls
  // are those of a guest that does not come back: every other call without a waiting thread has ensured that
  // a thread exists.
  lock.unlock();
  background_leader_.post([self = shared_from_this()] { self->lead_in_background(); });
  lock.lock();
}

void Client::lead_in_background() {
  Lock lock(mutex_);
  background_ = false;
  if (!leading_) lead(lock, [this] { return unawaited_ == 0; });
  appoint(lock);
}

/// noexcept: a leader that unwound, after a failed allocation for example, would leave calls behind that
/// point to its stack.
template <class Until>
void Client::lead(Lock& lock, Until&& until) noexcept {
  const bool nested = leading_;
  leading_ = true;
  leader_ = std::this_thread::get_id();
  while (!until()) turn(lock);
  if (nested) return;
  leading_ = false;
  leader_ = {};
}

void Client::turn(Lock& lock) {
  if (!finished_.empty()) return run_finished(lock);
  const BootTime now = BootClock::now();
  if (now >= look_at_) {
    // Reads answers first: if this thread is late, or no thread led for a while, they are still unread. Their
    // connection is not dead, and their calls are not unanswered.
    if (connection_) poll_once(lock, now);
    inspect(lock, now);
  }
  if (connection_ && master_switched(now, false)) {
    break_connection(lock, {ErrorCode::ServiceUnavailable, "the sentinels made another server the master"},
                     now);
  }
  if (connection_) {
    flush(lock);
  } else {
    dial(lock, now);
  }
  if (finished_.empty()) poll_once(lock, now);
}

void Client::run_finished(Lock& lock) {
  // Marks any leader as a library thread: an operation that ends here may be the last owner of an object
  // whose destructor would otherwise wait for threads that wait for this one.
  const runtime::LibraryThread mark;
  for (std::size_t told = 0; !finished_.empty(); ++told) {
    // Commands sent by completions are written while the next completions run, so that the server does not
    // idle.
    if (told % completions_per_write == completions_per_write - 1) flush(lock);
    if (!guest_.empty() && told == completions_per_call) return void(look_for_guest_call());
    Finished next = std::move(finished_.front());
    finished_.pop_front();
    const bool awaited = next.call->awaited;
    const bool by_idle_io = next.call->by_idle_io;
    lock.unlock();
    auto& call = *next.call;
    call.finish(std::move(next.call), std::move(next.answer));
    lock.lock();
    if (by_idle_io) --by_idle_io_;
    if (!awaited && --unawaited_ == 0) drained_.notify_all();
  }
}

bool Client::look_for_guest_call() noexcept {
  if (poll(guest_.data(), guest_.size(), 0) > 0) guest_called_ = true;
  return guest_called_;
}

void Client::end(std::unique_ptr<Call> call, Result<Reply> answer) {
  finished_.push_back({std::move(call), std::move(answer)});
}

void Client::poll_once(Lock& lock, BootTime now) {
  std::array<pollfd, 3 + most_guest_descriptors> polled{};
  polled[0] = {.fd = wake_.descriptor(), .events = POLLIN, .revents = 0};
  polled[1] = {.fd = -1, .events = 0, .revents = 0};
  const std::span guest = guest_;
  const auto watched = endpoint_->watch_master(now, false);
  polled[2] = {.fd = watched.descriptor, .events = watched.events, .revents = 0};
  std::ranges::copy(guest, polled.begin() + 3);
  BootTime until = std::min({look_at_, guest_until_, watched.until});
  if (connection_) {
    polled[1].fd = connection_->stream->descriptor();
    polled[1].events = static_cast<short>(out_of_room_ ? POLLIN | POLLOUT : POLLIN);
  } else if (dialer_) {
    polled[1].fd = dial_wait_.descriptor;
    polled[1].events = dial_wait_.events;
    until = std::min(until, dialer_->deadline());
  } else if (!unsent_.empty()) {
    until = std::min(until, redial_at_);
  }
  const bool connected = connection_.has_value();
  const timespec timeout = time_until(until, now);
  planned_wake_ = until;
  polling_ = true;
  lock.unlock();
  ppoll(polled.data(), 3 + guest.size(), &timeout, nullptr);
  if (polled[0].revents != 0) wake_.clear();
  if (polled[2].revents != 0) (void)endpoint_->watch_master(BootClock::now(), true);
  const bool may_write = connected && (polled[1].revents & POLLOUT) != 0;
  const bool may_read = connected && (polled[1].revents & ~POLLOUT) != 0;
  const auto broken = may_read ? read_replies() : std::nullopt;
  lock.lock();
  polling_ = false;
  woken_ = false;
  for (std::size_t i = 0; i < guest.size(); ++i) {
    guest[i].revents = polled[3 + i].revents;
    if (guest[i].revents != 0) guest_called_ = true;
  }
  if (may_write) out_of_room_ = false;  // the next turn writes
  if (may_read) take_replies(lock, broken);
}

void Client::flush(Lock& lock) {
  if (writing_ || out_of_room_ || !usable_) return;
  writing_ = true;
  while (usable_) {
    if (written_ == out_.size()) {
      out_.clear();
      written_ = 0;
      if (unsent_.empty() || demoted_) break;
      const BootTime now = BootClock::now();
      if (sent_.empty() && now - wrote_at_ >= look_after_idle &&
          (!connection_->stream->is_quiet() || master_switched(now, true))) {
        connection_->stream->shut_down();  // the leader handles it
        break;
      }
      wrote_at_ = now;
      while (!unsent_.empty() && out_.size() < write_size) {
        auto call = std::move(unsent_.front());
        unsent_.pop_front();
        if (call->fence_floor_at != std::string::npos) {
          write_fence_floor(call->bytes, call->fence_floor_at, connection_->fence_floor);
        }
        out_ += call->bytes;
        const auto first_byte = std::exchange(queued_bytes_, queued_bytes_ + call->bytes.size());
        call->sent_ = true;
        call->connection_ = connections_;
        const auto patience = call->patience;
        look_at_ = std::min(look_at_, saturating_add(now, patience));
        // Queued before the write: the reply may be read before the write returns.
        sent_.push_back({std::move(call), now, patience, first_byte});
      }
    }
    Stream& stream = *connection_->stream;
    lock.unlock();
    const auto count = stream.write(std::string_view(out_).substr(written_));
    lock.lock();
    if (!count) {
      stream.shut_down();  // the leader sees it, reads the remaining bytes and handles it
      break;
    }
    written_ += *count;
    accepted_bytes_ += *count;
    if (*count == 0) {
      out_of_room_ = true;
      wake_leader();
      break;
    }
  }
  writing_ = false;
  if (!usable_) writer_left_.notify_all();
}

/// Called without the lock: only the leader reads the connection. Returns the error if the connection broke.
std::optional<Error> Client::read_replies() {
  auto& stream = connection_->stream;
  auto& reader = connection_->reader;
  std::optional<Error> broken;
  for (int reads = 0; reads < most_reads; ++reads) {
    const auto count = stream->read(buffer_);
    if (!count) {
      broken = count.error();
      break;
    }
    reader.feed({buffer_.data(), *count});
    // No bytes: TLS may have half a record and wait for the rest, which poll reports.
    if (*count == 0 || (*count < buffer_.size() && !stream->has_more())) break;
  }
  for (;;) {
    auto reply = reader.next();
    if (!reply) broken = reply.error();
    if (!reply || !*reply) break;
    replies_.push_back(**std::move(reply));
  }
  return broken;
}

void Client::take_replies(Lock& lock, std::optional<Error> broken) {
  if (!replies_.empty()) answered_at_ = BootClock::now();
  for (auto& reply : replies_) {
    if (sent_.empty()) {
      broken = Error(ErrorCode::Internal, "the server sent more replies than requests");
      break;
    }
    on_reply(std::move(reply));
  }
  replies_.clear();
  if (!broken && demoted_ && sent_.empty()) broken = *demoted_;
  if (broken) break_connection(lock, *broken, BootClock::now());
}

void Client::on_reply(Reply reply) {
  answered_ = true;
  backoff_.reset();
  if (is_from_replica(*reply) && !demoted_) {
    // The address leads to another server by now, or will soon: a name, a virtual address or a proxy, which
    // only a new connection follows. Commands that were not written yet wait for that connection.
    demoted_ = error_of(*reply);
    endpoint_->note_demotion();
  }
  auto call = std::move(sent_.front().call);
  sent_.pop_front();
  if (call) end(std::move(call), std::move(reply));
}

void Client::dial(Lock& lock, BootTime now) {
  if (unsent_.empty()) {
    // All calls that wanted a connection have timed out before the attempt did.
    if (dialer_ && lost_at_) endpoint_->tell_of_reconnect(dialer_->began(), now, ErrorCode::NetworkTimeout);
    return dialer_.reset();
  }
  if (!dialer_) {
    // A switch is what the pause is for: then there is a master to be found.
    if (now < redial_at_ && dialled_switches_ == endpoint_->switches()) return;
    dialled_switches_ = endpoint_->switches();
    dialer_.emplace(endpoint_, now);
  }
  auto outcome = dialer_->step(now);
  if (const auto* waiting = std::get_if<Dialer::Waiting>(&outcome)) {
    dial_wait_ = *waiting;
    return;
  }
  const BootTime began = dialer_->began();
  dialer_.reset();
  if (auto* made = std::get_if<Connection>(&outcome)) {
    connection_.emplace(std::move(*made));
    ++connections_;
    usable_ = true;
    answered_ = false;
    wrote_at_ = now;
    last_error_.reset();
    if (lost_at_) endpoint_->tell_of_reconnect(*std::exchange(lost_at_, std::nullopt), now);
    return flush(lock);
  }
  const auto& error = std::get<Error>(outcome);
  last_error_ = error;
  if (lost_at_) endpoint_->tell_of_reconnect(began, now, error.code());
  redial_at_ = now + backoff_.next(os::jitter_fraction());
  // A permanent error (a wrong password) ends all calls; any other error ends only those with `fail_fast`.
  for (auto& call : unsent_) {
    if (error.transient() && !call->fail_fast) continue;
    const auto reason = call->was_sent() ? unknown_because(error) : error;
    end(std::move(call), reason);
  }
  std::erase(unsent_, nullptr);
}

void Client::break_connection(Lock& lock, const Error& why, BootTime now) {
  usable_ = false;
  writer_left_.wait(lock,
                    [this] { return !writing_; });  // or it would write to the next owner of the descriptor
  connection_.reset();
  out_.clear();
  written_ = 0;
  out_of_room_ = false;
  queued_bytes_ = 0;
  const auto accepted = std::exchange(accepted_bytes_, 0);
  last_error_ = endpoint_->about(why);
  lost_at_ = now;
  redial_at_ = now + pause_before_redial(now);
  demoted_.reset();
  for (auto& sent : std::views::reverse(sent_)) {
    if (!sent.call) continue;
    Call& call = *sent.call;
    call.sent_ = false;
    if (sent.first_byte < accepted) {
      call.sent_before_ = true;
      // A call whose patience is shorter than a round trip must not break every connection.
      call.patience = std::min(call.patience * 2, longest_patience);
    }
    unsent_.push_front(std::move(sent.call));
  }
  sent_.clear();
}

BootClock::duration Client::pause_before_redial(BootTime now) {
  if (demoted_) {
    if (now - std::exchange(demoted_at_, now) > one_failover) replica_backoff_.reset();
    return replica_backoff_.next(os::jitter_fraction());
  }
  // A connection that never answered may be to a server that drops what it rejects: do not retry at once.
  return answered_ ? BootClock::duration::zero() : backoff_.next(os::jitter_fraction());
}

bool Client::master_switched(BootTime now, bool look) const {
  if (look) (void)endpoint_->watch_master(now, true);
  return connection_->switches != endpoint_->switches();
}

Error Client::unanswered(const Call& call) const {
  if (call.stopped_) {
    return call.was_sent()
               ? Error(ErrorCode::NetworkTimeout, endpoint_->name() + ": stopped before the reply arrived")
               : Error(ErrorCode::Aborted, "the caller stopped the operation");
  }
  if (!connection_ && last_error_) return call.was_sent() ? unknown_because(*last_error_) : *last_error_;
  if (dialer_) return endpoint_->about(dialer_->no_connection(BootClock::now() - dialer_->began()));
  return {ErrorCode::NetworkTimeout,
          endpoint_->name() + (call.was_sent() ? ": no reply in time" : ": not sent in time")};
}

/// Ends the calls that timed out, gives up a connection whose answer is overdue, and computes the next check.
void Client::inspect(Lock& lock, BootTime now) {
  look_at_ = never;
  const auto is_over = [&](const Call& call) { return call.stopped_ || call.deadline <= now; };
  bool suspect = false;
  for (auto& sent : sent_) {
    const BootTime give_up_at = suspect_at(sent);
    suspect |= give_up_at <= now;
    look_at_ = std::min(look_at_, give_up_at);
    auto& call = sent.call;
    if (!call) continue;
    if (is_over(*call)) {
      const auto error = unanswered(*call);
      end(std::move(call), error);
    } else {
      look_at_ = std::min(look_at_, call->deadline);
    }
  }
  for (auto& call : unsent_) {
    if (is_over(*call)) {
      const auto error = unanswered(*call);
      end(std::move(call), error);
    } else {
      look_at_ = std::min(look_at_, call->deadline);
    }
  }
  std::erase(unsent_, nullptr);
  if (!suspect) return;
  break_connection(lock, {ErrorCode::NetworkTimeout, "no reply in time"}, now);
  look_at_ = never;
  for (const auto& call : unsent_) look_at_ = std::min(look_at_, call->deadline);
}

BootTime Client::suspect_at(const Sent& sent) const noexcept {
  return saturating_add(std::max(sent.at, answered_at_), sent.patience);
}

void Client::wake_leader() noexcept {
  if (polling_ && !std::exchange(woken_, true)) wake_.set();
}

void Client::on_stop() noexcept {
  const Lock lock(mutex_);
  look_at_ = BootTime{};
  wake_leader();
}

}  // namespace holdfast::redis
