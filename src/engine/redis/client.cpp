#include "engine/redis/client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace holdfast::redis {
namespace {

constexpr std::size_t read_size = std::size_t{64} << 10;
constexpr std::size_t completions_per_write = 32;
/// After this many completions, a guest checks whether it is called.
constexpr std::size_t completions_per_call = 256;
constexpr std::size_t most_guest_descriptors = 2;
/// poll's clock stands still while the machine is suspended; short sleeps bound how late a deadline is
/// noticed after resume.
constexpr BootClock::duration longest_sleep = std::chrono::seconds(1);

timespec time_until(BootTime at, BootTime now) {
  const auto left = std::clamp<BootClock::duration>(at - now, BootClock::duration::zero(), longest_sleep);
  const auto whole = std::chrono::floor<std::chrono::seconds>(left);
  return {.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
}

}  // namespace

void Call::OnStop::operator()() const noexcept {
  client->on_stop(*call);
}

Client::Client(std::shared_ptr<const Endpoint> endpoint)
    : endpoint_(std::move(endpoint)),
      calls_(endpoint_->name()),
      connector_(endpoint_, ReconnectFsm::AfterAnswers::at_once),
      buffer_(read_size) {}

Result<std::shared_ptr<Client>> Client::make(std::shared_ptr<const Endpoint> endpoint) {
  try {
    // A forked child leaks its copy untouched: a thread of the parent may have been changing it, and the
    // socket is the parent's.
    return std::shared_ptr<Client>(new Client(endpoint), [](Client* client) {
      if (client->process_.is_current()) delete client;
    });
  } catch (const Error& no_event) {
    return endpoint->about(no_event);
  }
}

Client::~Client() {
  if (connection_ && !calls_.owed_replies()) connection_->stream->close_politely();
}

void Client::close() {
  if (!process_.is_current()) return;
  Lock lock(mutex_);
  if (leadership_.led_by_this_thread())
    return;  // the background leader owns us, and continues until all calls are completed
  unattended_.guest_is_not_coming();  // it may be this thread, or one that is ending
  appoint(lock);
  drained_.wait(lock, [this] { return !unattended_.any(); });
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
  Lock lock(mutex_);
  const bool by_idle_io = call->by_idle_io;
  unattended_.queued(*call);
  calls_.queue(std::move(call));
  // In a completion: written with the others after all completions have run.
  if (leadership_.led_by_this_thread()) return;
  if (by_idle_io) return unattended_.guest_comes();
  flush(lock);
  if (leadership_.led()) {
    // The leader's poll was set before this call's deadline was known. Earlier deadlines are rare.
    const bool guest_must_leave = guest_ != nullptr && unattended_.any_of_others();
    if (calls_.look_at() < planned_wake_ || guest_must_leave) wake_leader();
  }
  appoint(lock);
}

void Client::wait(Completion& completion) {
  detail::Trampoline::drain();
  if (completion.finished()) return;
  const auto self = shared_from_this();  // a completion run here may drop the last owner
  Lock lock(mutex_);
  while (!completion.finished()) {
    // A blocking completion runs on the leader itself, which then continues to lead inside its turn.
    leadership_.step(
        completion, [&] { turn(lock); },
        [&] {
          lock.unlock();
          completion.wait_for_news();
          lock.lock();
        });
  }
  appoint(lock);
}

void Client::run_until_readable(int descriptor) noexcept {
  pollfd called{.fd = descriptor, .events = POLLIN, .revents = 0};
  (void)lead_as_guest(std::span(&called, descriptor < 0 ? 0 : 1), never, nullptr);
}

bool Client::lead_as_guest(std::span<pollfd> called_by, BootTime until, os::Event* wake) noexcept {
  if (!process_.is_current()) return false;
  const auto self = shared_from_this();  // a completion may drop the last owner
  Lock lock(mutex_);
  unattended_.guest_is_not_coming();
  if (!unattended_.any_of_guests()) return false;
  const bool comes_back = !called_by.empty();
  if (leadership_.led()) {
    if (comes_back && wake != nullptr) {
      wake_guest_ = wake;
      unattended_.guest_stands_by();
    }
    if (calls_.has_unsent()) wake_leader();  // the leader writes what we queued
    return false;
  }
  if (comes_back) {
    Guest guest{.called_by = called_by, .until = until};
    guest_ = &guest;
    for (bool last_turn = false; unattended_.any_of_guests() && !unattended_.any_of_others();) {
      if (until != never && BootClock::now() >= until) guest.called = true;
      // A guest that is called away still completes some answered calls. Otherwise, if work falls due faster
      // than it is done, the guest would only send and never complete.
      if (guest.called && (!calls_.has_finished() || std::exchange(last_turn, true))) break;
      leadership_.lead([&] { turn(lock); });
    }
    guest_ = nullptr;
    // It comes back, so no other thread has to be woken or started for its calls.
    if (guest.called) unattended_.guest_comes();
  }
  const bool led = comes_back && !unattended_.any_of_others();
  appoint(lock);
  return led;
}

/// Finds a leader if one is needed.
void Client::appoint(Lock& lock) {
  if (leadership_.appoint()) return;
  const auto leader = unattended_.appoint();
  if (leader == UnattendedCalls::Leader::guest) wake_guest_->set();
  if (leader != UnattendedCalls::Leader::background) return;
  // Without the mutex: if the machine has no thread, the job runs here at once. Then the only pending calls
  // are those of a guest that does not come back: every other call without a waiting thread has ensured that
  // a thread exists.
  lock.unlock();
  background_leader_.post([self = shared_from_this()] { self->lead_in_background(); });
  lock.lock();
}

void Client::lead_in_background() {
  Lock lock(mutex_);
  unattended_.background_arrived();
  while (!leadership_.led() && unattended_.any()) leadership_.lead([&] { turn(lock); });
  appoint(lock);
}

void Client::turn(Lock& lock) {
  if (calls_.has_finished()) return run_finished(lock);
  const BootTime now = BootClock::now();
  if (now >= calls_.look_at()) {
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
  if (!calls_.has_finished()) poll_once(lock, now);
}

void Client::run_finished(Lock& lock) {
  // Marks any leader as a library thread: an operation that ends here may be the last owner of an object
  // whose destructor would otherwise wait for threads that wait for this one.
  const runtime::LibraryThread mark;
  for (std::size_t completed = 0; calls_.has_finished(); ++completed) {
    // Commands sent by completions are written while the next completions run, so that the server does not
    // idle.
    if (completed % completions_per_write == completions_per_write - 1) flush(lock);
    if (guest_ != nullptr && completed == completions_per_call) {
      guest_->called |= poll(guest_->called_by.data(), guest_->called_by.size(), 0) > 0;
      return;
    }
    auto next = calls_.take_finished();
    const bool awaited = next.call->awaited;
    const bool by_idle_io = next.call->by_idle_io;
    lock.unlock();
    auto& call = *next.call;
    call.finish(std::move(next.call), std::move(next.answer));
    lock.lock();
    unattended_.completed(awaited, by_idle_io);
    if (!awaited && !unattended_.any()) drained_.notify_all();
  }
}

void Client::poll_once(Lock& lock, BootTime now) {
  std::array<pollfd, 3 + most_guest_descriptors> polled{};
  polled[0] = {.fd = wake_.descriptor(), .events = POLLIN, .revents = 0};
  polled[1] = {.fd = -1, .events = 0, .revents = 0};
  const auto called_by = guest_ != nullptr ? guest_->called_by : std::span<pollfd>();
  const auto watched = endpoint_->watch_master(now, false);
  polled[2] = {.fd = watched.descriptor, .events = watched.events, .revents = 0};
  std::ranges::copy(called_by, polled.begin() + 3);
  BootTime until = std::min(calls_.look_at(), watched.until);
  if (guest_ != nullptr) until = std::min(until, guest_->until);
  if (connection_) {
    polled[1].fd = connection_->stream->descriptor();
    polled[1].events = static_cast<short>(calls_.out_of_room() ? POLLIN | POLLOUT : POLLIN);
  } else if (calls_.has_unsent()) {
    polled[1].fd = connector_.waiting().descriptor;
    polled[1].events = connector_.waiting().events;
    until = std::min(until, connector_.step_at());
  }
  const bool connected = connection_.has_value();
  const timespec timeout = time_until(until, now);
  planned_wake_ = until;
  polling_ = true;
  lock.unlock();
  ppoll(polled.data(), 3 + called_by.size(), &timeout, nullptr);
  if (polled[0].revents != 0) wake_.clear();
  if (polled[2].revents != 0) (void)endpoint_->watch_master(BootClock::now(), true);
  const bool may_write = connected && (polled[1].revents & POLLOUT) != 0;
  const bool may_read = connected && (polled[1].revents & ~POLLOUT) != 0;
  // Only the leader reads the connection.
  const auto broken = may_read ? receive(*connection_, buffer_, replies_) : std::nullopt;
  lock.lock();
  polling_ = false;
  woken_ = false;
  for (std::size_t i = 0; i < called_by.size(); ++i) {
    called_by[i].revents = polled[3 + i].revents;
    if (called_by[i].revents != 0) guest_->called = true;
  }
  if (may_write) calls_.has_room();  // the next turn writes
  if (may_read) take_replies(lock, broken);
}

void Client::flush(Lock& lock) {
  if (writing_ || !usable_) return;
  writing_ = true;
  Stream& stream = *connection_->stream;
  while (usable_ && calls_.has_output()) {
    const BootTime now = BootClock::now();
    // A process that knows of a later master writes nothing to an earlier one: neither the fences that it
    // remembers nor its releases belong there.
    if (master_switched(now, false) ||
        (calls_.was_idle(now) && (!stream.is_quiet() || master_switched(now, true)))) {
      stream.shut_down();  // the leader handles it
      break;
    }
    const auto bytes = calls_.output(now);
    lock.unlock();
    const auto count = stream.write(bytes);
    lock.lock();
    if (!count) {
      stream.shut_down();  // the leader sees it, reads the remaining bytes and handles it
      break;
    }
    calls_.accepted(*count);
    if (calls_.out_of_room()) wake_leader();
  }
  writing_ = false;
  if (!usable_) writer_left_.notify_all();
}

void Client::take_replies(Lock& lock, std::optional<Error> broken) {
  const BootTime now = BootClock::now();
  const bool was_demoted = calls_.demoted();
  if (auto wrong = calls_.take(replies_, now); wrong && !broken) broken = std::move(wrong);
  replies_.clear();
  if (calls_.answered()) connector_.answered();
  if (calls_.demoted() && !was_demoted) endpoint_->note_demotion();
  if (broken) break_connection(lock, *broken, now);
}

void Client::dial(Lock& lock, BootTime now) {
  auto outcome = connector_.step(now, calls_.has_unsent());
  if (auto* made = std::get_if<Connection>(&outcome)) {
    connection_.emplace(std::move(*made));
    usable_ = true;
    calls_.connected(now, connection_->fence_floor, connection_->epoch);
    flush(lock);
  } else if (const auto* error = std::get_if<Error>(&outcome)) {
    calls_.cannot_connect(*error);
  }
}

void Client::break_connection(Lock& lock, const Error& why, BootTime now) {
  usable_ = false;
  writer_left_.wait(lock,
                    [this] { return !writing_; });  // or it would write to the next owner of the descriptor
  connection_.reset();
  connector_.lost(why, now, calls_.demoted());
  calls_.disconnected();
}

bool Client::master_switched(BootTime now, bool look) const {
  if (look) (void)endpoint_->watch_master(now, true);
  return connection_->switches != endpoint_->switches();
}

/// Ends the calls that timed out, and gives up a connection whose answer is overdue.
void Client::inspect(Lock& lock, BootTime now) {
  const auto no_connection = connection_ ? std::optional<Error>() : connector_.no_connection(now);
  if (!calls_.inspect(now, no_connection)) return;
  break_connection(lock, {ErrorCode::NetworkTimeout, "no reply in time"}, now);
}

void Client::wake_leader() noexcept {
  if (polling_ && !std::exchange(woken_, true)) wake_.set();
}

void Client::on_stop(Call& call) noexcept {
  const Lock lock(mutex_);
  calls_.stop(call);
  wake_leader();
}

}  // namespace holdfast::redis
