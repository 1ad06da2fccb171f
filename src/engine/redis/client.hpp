#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/wire/command.hpp"
#include "os/event.hpp"
#include "os/process.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::redis {

class Client;

/// One command on its way to the server and back. Every command that is sent through a Client must be safe to
/// repeat: when a connection breaks, what was not answered is sent again on the next.
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  std::string bytes;
  /// Ends with NetworkTimeout (or what kept us from connecting) at this time.
  BootTime deadline = never;
  /// Unanswered for this long, counted from the last answer to any call, the connection is given up and the
  /// call repeated on a new one.
  BootClock::duration patience = std::chrono::seconds(5);
  /// A thread will call Client::wait for it: no other thread needs to do its I/O.
  bool awaited = false;
  /// The first failure to connect ends it.
  bool fail_fast = false;
  /// The thread that sends it leads as a guest next, and writes it there if no other thread leads. Only for
  /// calls that no thread waits for. All guests of one client must be of a kind: each completes what another
  /// has sent.
  bool by_idle_io = false;

  /// Whether an earlier copy may have reached the server, or may still. One of which no connection accepted a
  /// byte is no copy.
  [[nodiscard]] bool was_repeated() const noexcept { return sent_before_; }
  /// False if no connection accepted a byte of it, nor will.
  [[nodiscard]] bool was_sent() const noexcept { return sent_ || sent_before_; }
  /// Which of the client's connections it was written to last: the one that answered it, if one did. What a
  /// server said on another may be void, for it may have been restarted in between.
  [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }

 protected:
  /// Its end, exactly once, on the thread that leads the I/O, outside all mutexes. A transient error means
  /// that nobody knows whether it was carried out, unless `was_sent` is false. It owns itself now, and may be
  /// sent again.
  virtual void finish(std::unique_ptr<Call> self, Result<Reply> answer) = 0;

 private:
  friend class Client;
  struct OnStop {
    Client* client;
    Call* call;
    void operator()() const noexcept;
  };
  bool sent_ = false;         ///< written, or about to be, to the connection that there is
  bool sent_before_ = false;  ///< written, wholly or in part, to a connection that broke
  std::uint64_t connection_ = 0;
  std::atomic<bool> stopped_ = false;
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

/// Many operations over one connection, from any thread. Commands are written by whoever sends them, many at
/// once when they come faster than a write takes; replies are matched in order.
///
/// Leader and followers. One thread at a time, the leader, polls, reads, connects and runs completions: a
/// thread that waits for its own call if there is one, so that a blocking call costs no switch of threads;
/// else a background thread, which exists only while calls are under way that no thread waits for. When a
/// leader's call is done, it nudges one of the threads that wait to take over.
///
/// An idle thread that sends calls by itself (a timer's, the subscriber's) leads as a guest: only while no
/// others are under way that no thread waits for, whose completions could run user code, and until it is
/// called.
///
/// What a broken connection means for a call: not yet written, or written but not answered, it is sent again
/// on the next connection, until its deadline. Placeholders keep the order when a call ends before its reply.
/// A reply nobody asked for, or bytes that are no reply, break the connection. A server that turns out to be
/// a replica is left when it has answered what it was asked.
class Client final : public IdleIo, public std::enable_shared_from_this<Client> {
 public:
  /// Connects when first used.
  [[nodiscard]] static std::shared_ptr<Client> make(std::shared_ptr<const Endpoint> endpoint);
  ~Client() override;

  /// A stop request ends the call: with Aborted if it was never written, else with NetworkTimeout.
  void send(std::unique_ptr<Call> call, const std::stop_token& stop);
  /// Returns when the completion is finished; does the I/O meanwhile if nobody else does.
  void wait(Completion& completion);
  /// One command, blocking.
  [[nodiscard]] Result<Reply> call(Command command, BootTime deadline, bool fail_fast = false);
  [[nodiscard]] Result<Reply> call_bytes(std::string bytes, BootTime deadline, bool fail_fast = false);
  void run_until_readable(int descriptor) noexcept override;
  /// For a thread that sends calls `by_idle_io`, in place of its next sleep: does their I/O until one of
  /// these is ready or the time has come. False if there is nothing for it to do, or if others must: when
  /// another thread that leads leaves, `wake` is set. Without descriptors it says that it does not come back;
  /// `wake` must live until then.
  bool lead_as_guest(std::span<pollfd> called_by, BootTime until, os::Event* wake) noexcept;
  /// Waits until everything sent has ended, unless called from a completion.
  void close();

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return *endpoint_; }

 private:
  friend struct Call::OnStop;
  using Lock = std::unique_lock<std::mutex>;
  struct Sent {
    std::unique_ptr<Call> call;  ///< null: it ended before its reply came
    BootTime at;
    BootClock::duration patience;
    std::uint64_t first_byte;  ///< its place among the bytes of this connection
  };
  struct Finished {
    std::unique_ptr<Call> call;
    Result<Reply> answer;
  };

  explicit Client(std::shared_ptr<const Endpoint> endpoint);

  // All of these require the lock; those that take it may let go of it meanwhile.
  template <class Until>
  void lead(Lock& lock, Until&& until) noexcept;
  void turn(Lock& lock);
  void run_finished(Lock& lock);
  void appoint(Lock& lock);
  void flush(Lock& lock);
  [[nodiscard]] std::optional<Error> read_replies();
  void take_replies(Lock& lock, std::optional<Error> broken);
  void dial(Lock& lock, BootTime now);
  void poll_once(Lock& lock, BootTime now);
  void inspect(Lock& lock, BootTime now);
  void break_connection(Lock& lock, const Error& why, BootTime now);
  void on_reply(Reply reply);
  [[nodiscard]] BootClock::duration pause_before_redial(BootTime now);
  void on_stop() noexcept;
  void wake_leader() noexcept;
  /// Whether a guest leads though there are calls that it must not complete.
  [[nodiscard]] bool guest_must_leave() const noexcept;
  bool look_for_guest_call() noexcept;
  /// Unanswered until then, the connection is given up: it may be dead. While answers come it is not, however
  /// long the queue is.
  [[nodiscard]] BootTime suspect_at(const Sent& sent) const noexcept;
  void end(std::unique_ptr<Call> call, Result<Reply> answer);
  [[nodiscard]] bool i_lead() const noexcept;
  [[nodiscard]] Error unanswered(const Call& call) const;
  void lead_in_background();

  const std::shared_ptr<const Endpoint> endpoint_;
  const os::ProcessIdentity process_;
  os::Event wake_;  ///< ends the leader's poll

  std::mutex mutex_;
  std::deque<std::unique_ptr<Call>> unsent_;
  std::deque<Sent> sent_;
  std::deque<Finished> finished_;  ///< to be told, by the leader
  BootTime look_at_ = never;       ///< no call's time is up before this
  std::size_t unawaited_ = 0;      ///< calls, not told yet, that no thread waits for
  std::size_t by_idle_io_ = 0;     ///< of those, the ones that a guest completes
  std::condition_variable drained_;

  bool leading_ = false;
  std::thread::id leader_;
  bool polling_ = false;           ///< the leader sleeps, or is about to: only `wake_` reaches it
  bool woken_ = false;             ///< by `wake_`, from this sleep
  BootTime planned_wake_ = never;  ///< at the latest
  bool background_ = false;
  std::span<pollfd> guest_;  ///< what calls the leader away, if it is a guest
  BootTime guest_until_ = never;
  bool guest_called_ = false;        ///< one of these is ready
  bool guest_expected_ = false;      ///< some idle thread comes soon and leads, if no other does
  os::Event* wake_guest_ = nullptr;  ///< of one that comes if this is set
  std::vector<Completion*> followers_;

  std::optional<Connection> connection_;  ///< changed by the leader only, and while nobody writes
  std::uint64_t connections_ = 0;         ///< how many there were, this one included
  bool usable_ = false;                   ///< false while it is being given up
  bool answered_ = false;                 ///< something, since it was made
  std::optional<Error> demoted_;          ///< its server is a replica: nothing new is sent there
  std::uint64_t queued_bytes_ = 0;        ///< that were put into `out_` for it
  std::uint64_t accepted_bytes_ = 0;      ///< that it accepted of those
  BootTime wrote_at_{};                   ///< when it was last used
  BootTime answered_at_{};                ///< the last time
  std::string out_;                       ///< being written
  std::size_t written_ = 0;               ///< of it
  bool writing_ = false;                  ///< by some thread, outside the mutex
  bool out_of_room_ = false;              ///< the leader must poll for room
  std::condition_variable writer_left_;
  std::optional<Dialer> dialer_;
  Dialer::Waiting dial_wait_{};
  BootTime redial_at_{};
  Backoff backoff_;
  Backoff replica_backoff_;          ///< a replica answers, which resets the other one
  BootTime demoted_at_{};            ///< when one was last left
  std::optional<Error> last_error_;  ///< why there is no connection
  std::optional<BootTime> lost_at_;  ///< empty: never, or replaced since

  // Of the leader alone.
  std::vector<char> buffer_;
  std::vector<Reply> replies_;

  runtime::WorkerPool background_leader_{1};
};

}  // namespace holdfast::redis
