#pragma once

#include <asio/cancellation_signal.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/protocol/message.hpp"
#include "rpc/session/event.hpp"
#include "rpc/session/held_jobs.hpp"
#include "rpc/session/held_locks.hpp"
#include "rpc/session/service.hpp"

namespace holdfast::rpc {

/// What one answer names, and nothing else: without that answer the client cannot use it.
struct Grants {
  std::vector<std::string> locks = {};  ///< ids of locks that are not renewed
  std::vector<std::string> jobs = {};   ///< ids of jobs, as HeldJobs has them

  void append(const Grants& other);
};

/// One request that is being carried out.
struct RunningRequest {
  std::string id = {};  ///< as comparable_id returns it; empty for a notification
  bool waits = false;   ///< for other clients
  asio::cancellation_signal cancellation = {};
  Grants grants = {};  ///< of its answer
};

/// The requests of one client that have not been answered yet.
class InFlight {
 public:
  [[nodiscard]] std::shared_ptr<RunningRequest> add(std::string id, bool waits);
  void remove(const std::shared_ptr<RunningRequest>& request);

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
  /// Those that do not wait.
  [[nodiscard]] std::size_t running() const noexcept { return all_.size() - waiting_; }

  /// False if there is none with this id. A request that has its result already is answered with that.
  bool cancel(std::string_view id);
  /// The others end without help, and a change on its way is better finished.
  void cancel_waiting();

 private:
  std::vector<std::shared_ptr<RunningRequest>> all_;
  std::size_t waiting_ = 0;
};

/// The answers of a batch until the last one is complete.
struct Batch {
  std::size_t missing = 0;
  std::size_t bytes = 0;
  std::vector<std::string> answers = {};
  Grants grants = {};  ///< as in Session::Send
};
using BatchPtr = std::shared_ptr<Batch>;

/// One client as requests and answers, whatever transport carries them: what it has asked for and what it
/// holds. Everything here runs on the thread of the executor.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// Sends one answer or notification. `grants`: what only this text names; if it is not delivered, the
  /// transport has them released.
  using Send = std::function<void(std::string_view text, const Grants& grants)>;

  /// `holder`: the label of the client's process, for LockOptions::holder; empty: the store's.
  Session(Service& service, Send send, std::string holder = {});

  // For transports.
  /// Begins a request, or answers it if it cannot be begun. `batch`: null if it came alone.
  void begin(const Parsed& message, const BatchPtr& batch);
  /// Whether the client has as many requests running as it may.
  [[nodiscard]] bool busy() const noexcept;
  /// Whether nothing is left to be answered.
  [[nodiscard]] bool idle() const noexcept { return in_flight_.empty(); }
  /// Notified when one of these changes, and by the transport for its own part.
  [[nodiscard]] Event& changed() noexcept { return changed_; }
  /// No new requests; those that wait are cancelled.
  void stop();
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  /// Answers are not read any more: requests that wait are cancelled, the others go on.
  void lose_client();

  // For methods.
  [[nodiscard]] Service& service() noexcept { return service_; }
  [[nodiscard]] HeldLocks& held() noexcept { return held_; }
  [[nodiscard]] HeldJobs& jobs() noexcept { return jobs_; }
  [[nodiscard]] const std::string& holder() const noexcept { return holder_; }
  /// False if no request of this id is in flight.
  bool cancel(std::string_view id) { return in_flight_.cancel(id); }

 private:
  /// Throws Error if it must not be begun.
  void check_may_begin(const Method& method, const BatchPtr& batch) const;
  void start(const Method& method, const Request& request, const BatchPtr& batch);
  /// Without an answer for a notification. `grants`: as in RunningRequest.
  void deliver(const std::optional<std::string>& answer, const BatchPtr& batch, const Grants& grants = {});
  void notify(std::string_view method, const Json& params);

  Service& service_;
  Send send_;
  std::string holder_;
  Event changed_;
  InFlight in_flight_;
  HeldLocks held_;
  HeldJobs jobs_;
  std::size_t batched_bytes_ = 0;  ///< of all batches
  bool gone_ = false;
  bool stopping_ = false;
};

}  // namespace holdfast::rpc
