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

/// One pending command. Every command that is sent through a Client must be safe to repeat: when a connection
/// breaks, unanswered commands are resent on the next.
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  std::string bytes;
  /// Where the fence floor of the connection that it is written to stands in `bytes`, as 15 digits; npos:
  /// nowhere. A copy on another connection has that one's floor.
  std::size_t fence_floor_at = std::string::npos;
  /// Ends with NetworkTimeout (or the error that prevented a connection) at this time.
  BootTime deadline = never;
  /// If the call is unanswered for this long after the last answer to any call, the connection is given up
  /// and the call resent on a new one.
  BootClock::duration patience = std::chrono::seconds(5);
  /// A thread will call Client::wait for it: no other thread needs to do its I/O.
  bool awaited = false;
  /// The first failure to connect ends it.
  bool fail_fast = false;
  /// The sending thread leads as a guest next, and writes the call then if no other thread leads. Only for
  /// calls without a waiting thread. All guests of one client must be of one kind: each completes calls that
  /// another has sent.
  bool by_idle_io = false;

  /// Whether an earlier copy may have reached the server, or may still reach it. A copy counts once a
  /// connection accepted a byte of it.
  [[nodiscard]] bool was_repeated() const noexcept { return sent_before_; }
  /// False if no connection accepted a byte of it, or ever will.
  [[nodiscard]] bool was_sent() const noexcept { return sent_ || sent_before_; }
  /// Number of the client's connection that it was last written to: the one that answered, if any did.
  /// Answers on another connection may be void: the server may have been restarted in between.
  [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }

 protected:
  /// Called at its end, exactly once, on the thread that leads the I/O, outside all mutexes. A transient
  /// error means that it is unknown whether the command was carried out, unless `was_sent` is false. The call
  /// owns itself now, and may be sent again.
  virtual void finish(std::unique_ptr<Call> self, Result<Reply> answer) = 0;

 private:
  friend class Client;
  struct OnStop {
    Client* client;
    Call* call;
    void operator()() const noexcept;
  };
  bool sent_ = false;         ///< written, or about to be, to the current connection
  bool sent_before_ = false;  ///< written, wholly or in part, to a connection that broke
  std::uint64_t connection_ = 0;
  std::atomic<bool> stopped_ = false;
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

/// Many operations over one connection, from any thread. The sending thread writes its command; commands that
/// arrive during a write are written together. Replies are matched in order.
///
/// Leader and followers. One thread at a time, the leader, polls, reads, connects and runs completions: a
/// thread that waits for its own call if there is one, so that a blocking call costs no switch of threads;
/// else a background thread, which exists only while calls without a waiting thread are pending. When a
/// leader's call is done, it nudges one of the waiting threads to take over.
///
/// An idle thread that sends its own calls (a timer's, the subscriber's) leads as a guest, until it is called
/// away. It leads only while no other calls without a waiting thread are pending: their completions could run
/// user code.
///
/// When a connection breaks, calls that were not written or not answered are sent again on the next one,
/// until their deadlines. Placeholders keep the order when a call ends before its reply. An unexpected reply,
/// or bytes that are not a reply, break the connection. If the server turns out to be a replica, the
/// connection is closed after the pending answers.
class Client final : public IdleIo, public std::enable_shared_from_this<Client> {
 public:
  /// Connects on first use.
  [[nodiscard]] static std::shared_ptr<Client> make(std::shared_ptr<const Endpoint> endpoint);
  ~Client() override;

  /// A stop request ends the call: with Aborted if it was never written, else with NetworkTimeout.
  void send(std::unique_ptr<Call> call, const std::stop_token& stop);
  /// Returns when the completion is finished; does the I/O meanwhile if no other thread does.
  void wait(Completion& completion);
  /// One command, blocking.
  [[nodiscard]] Result<Reply> call(Command command, BootTime deadline, bool fail_fast = false);
  [[nodiscard]] Result<Reply> call_bytes(std::string bytes, BootTime deadline, bool fail_fast = false);
  void run_until_readable(int descriptor) noexcept override;
  /// For a thread that sends calls `by_idle_io`, in place of its next sleep: does their I/O until one of
  /// these descriptors is ready or the time has come. False if there is no I/O to do, or if another thread
  /// must do it: when that leader leaves, `wake` is set. A call without descriptors means that the guest does
  /// not come back; `wake` must live until then.
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

  // All of these require the lock; those with a Lock parameter may unlock it meanwhile.
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
  /// Whether the sentinels have named another master since the connection was dialled; `look`: reads what
  /// they sent while no thread polled.
  [[nodiscard]] bool master_switched(BootTime now, bool look) const;
  void on_stop() noexcept;
  void wake_leader() noexcept;
  /// Whether a guest leads while there are calls that it must not complete.
  [[nodiscard]] bool guest_must_leave() const noexcept;
  bool look_for_guest_call() noexcept;
  /// If there is no answer until then, the connection may be dead and is given up. While answers come it is
  /// alive, however long the queue is.
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
  std::deque<Finished> finished_;  ///< to be completed by the leader
  BootTime look_at_ = never;       ///< no call times out before this
  std::size_t unawaited_ = 0;      ///< uncompleted calls without a waiting thread
  std::size_t by_idle_io_ = 0;     ///< of those, the ones that a guest completes
  std::condition_variable drained_;

  bool leading_ = false;
  std::thread::id leader_;
  bool polling_ = false;           ///< the leader sleeps, or is about to: only `wake_` reaches it
  bool woken_ = false;             ///< by `wake_`, from this sleep
  BootTime planned_wake_ = never;  ///< at the latest
  bool background_ = false;
  std::span<pollfd> guest_;  ///< descriptors that call the leader away, if it is a guest
  BootTime guest_until_ = never;
  bool guest_called_ = false;        ///< one of these is ready
  bool guest_expected_ = false;      ///< an idle thread will lead soon, if no other does
  os::Event* wake_guest_ = nullptr;  ///< of a guest that comes if this is set
  std::vector<Completion*> followers_;

  std::optional<Connection> connection_;  ///< changed by the leader only, and only while no thread writes
  std::uint64_t connections_ = 0;         ///< number of connections so far, including this one
  bool usable_ = false;                   ///< false while it is being given up
  bool answered_ = false;                 ///< at least one command, since it was made
  std::optional<Error> demoted_;          ///< its server is a replica: nothing new is sent there
  std::uint64_t queued_bytes_ = 0;        ///< that were put into `out_` for it
  std::uint64_t accepted_bytes_ = 0;      ///< of those, accepted by it
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
  std::uint64_t dialled_switches_ = 0;  ///< the endpoint's count when it was last dialled
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
