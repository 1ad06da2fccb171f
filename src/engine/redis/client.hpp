#pragma once

#include <poll.h>

#include <condition_variable>
#include <cstddef>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/lock_backend.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/redis/conn/call.hpp"
#include "engine/redis/conn/connector.hpp"
#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/conn/leadership.hpp"
#include "engine/redis/conn/multiplexer.hpp"
#include "engine/redis/conn/unattended_calls.hpp"
#include "engine/redis/transport.hpp"
#include "engine/redis/wire/command.hpp"
#include "os/event.hpp"
#include "os/process.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::redis {

/// Many operations over one connection, from any thread. The sending thread writes its command; commands that
/// arrive during a write are written together. Replies are matched in order.
///
/// Here is what locks, polls, reads, writes and runs completions. Multiplexer decides about calls,
/// ReconnectFsm about connections, Leadership about threads.
///
/// The leader is a thread that waits for its own call, if there is one, so that a blocking call costs no
/// switch of threads; else a background thread, which exists only while calls without a waiting thread are
/// pending.
///
/// An idle thread that sends its own calls (a timer's, the subscriber's) leads as a guest, until it is called
/// away. It leads only while no other calls without a waiting thread are pending: their completions could run
/// user code.
///
/// When a connection breaks, calls that were not written or not answered are sent again on the next one,
/// until their deadlines. An unexpected reply, or bytes that are not a reply, break the connection. If the
/// server turns out to be a replica, the connection is closed after the pending answers.
class Client final : public Transport, public std::enable_shared_from_this<Client> {
 public:
  /// Connects on first use. Fails if no descriptor is left.
  [[nodiscard]] static Result<std::shared_ptr<Client>> make(std::shared_ptr<const Endpoint> endpoint);
  ~Client() override;

  /// A stop request ends the call: with Aborted if it was never written, else with NetworkTimeout.
  void send(std::unique_ptr<Call> call, const std::stop_token& stop) override;
  /// Returns when the completion is finished; does the I/O meanwhile if no other thread does.
  void wait(Completion& completion) override;
  void run_until_readable(int descriptor) noexcept override;
  /// For a thread that sends calls `by_idle_io`, in place of its next sleep: does their I/O until one of
  /// these descriptors is ready or the time has come. False if there is no I/O to do, or if another thread
  /// must do it: when that leader leaves, `wake` is set. A call without descriptors means that the guest does
  /// not come back; `wake` must live until then.
  bool lead_as_guest(std::span<pollfd> called_by, BootTime until, os::Event* wake) noexcept;
  /// Waits until everything sent has ended, unless called from a completion.
  void close() override;
  /// Ends the leader's poll: a completion that it waits for was finished by another thread.
  void wake() noexcept { wake_.set(); }

  [[nodiscard]] const Endpoint& endpoint() const noexcept override { return *endpoint_; }

 private:
  friend struct Call::OnStop;
  using Lock = std::unique_lock<std::mutex>;
  struct Guest {
    std::span<pollfd> called_by;
    BootTime until;
    bool called = false;  ///< one of these is ready
  };

  explicit Client(std::shared_ptr<const Endpoint> endpoint);

  // All of these require the lock; those with a Lock parameter may unlock it meanwhile.
  void turn(Lock& lock);
  void run_finished(Lock& lock);
  void appoint(Lock& lock);
  void flush(Lock& lock);
  void take_replies(Lock& lock, std::optional<Error> broken);
  void dial(Lock& lock, BootTime now);
  void poll_once(Lock& lock, BootTime now);
  void inspect(Lock& lock, BootTime now);
  void break_connection(Lock& lock, const Error& why, BootTime now);
  /// Whether the sentinels have named another master since the connection was dialled; `look`: reads what
  /// they sent while no thread polled.
  [[nodiscard]] bool master_switched(BootTime now, bool look) const;
  void wake_leader() noexcept;
  void on_stop(Call& call) noexcept;
  void lead_in_background();

  const std::shared_ptr<const Endpoint> endpoint_;
  const os::ProcessIdentity process_;
  os::Event wake_;  ///< ends the leader's poll

  std::mutex mutex_;
  Multiplexer calls_;
  Connector connector_;
  std::optional<Connection> connection_;  ///< changed by the leader only, and only while no thread writes
  bool usable_ = false;                   ///< false while it is being given up
  bool writing_ = false;                  ///< by some thread, outside the mutex
  std::condition_variable writer_left_;
  UnattendedCalls unattended_;
  std::condition_variable drained_;  ///< of those

  Leadership<Completion, &Completion::nudge> leadership_;
  bool polling_ = false;             ///< the leader sleeps, or is about to: only `wake_` reaches it
  bool woken_ = false;               ///< by `wake_`, from this sleep
  BootTime planned_wake_ = never;    ///< at the latest
  Guest* guest_ = nullptr;           ///< the leader, if it is one
  os::Event* wake_guest_ = nullptr;  ///< of the guest that stands by

  // Of the leader alone.
  std::vector<char> buffer_;
  std::vector<Reply> replies_;

  runtime::WorkerPool background_leader_{1};
};

}  // namespace holdfast::redis
