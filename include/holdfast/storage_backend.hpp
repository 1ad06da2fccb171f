#pragma once

#include <cstdint>
#include <holdfast/change_feed.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/output_requests.hpp>
#include <holdfast/queue_requests.hpp>
#include <holdfast/record_requests.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace holdfast {

/// The storage contract: versioned records by owner. The interface that every storage engine implements; one
/// suite of tests checks all engines against it. It does not interpret records, apart from the two times in
/// RecordData. Programs use Tasks and FencedRegister.
///
/// *Completion, errors, deadline and cancellation* are those of LockBackend. A transient failure of a change
/// means *unknown*: it may have taken effect. An engine that resends a request to a server after a lost
/// answer recognises its own change and makes it once. Only if another writer undoes the change in between
/// (removes what was created, or creates again what was removed) is it made again; a remove with an
/// incarnation is not.
///
/// *Time.* `now` is the engine's clock. An expired record is absent, for reads, lists, quotas and every
/// change, to the millisecond. A write sets the expiry anew from its data; data without an expiry never
/// expires.
///
/// *Fences.* A write may carry a FencingToken:
/// - A record that no lock guards is bound to the token's lock from then on.
/// - A record bound to the same lock refuses a fence lower than the highest it has seen (an equal one is
///   allowed) and remembers a higher one.
/// - A record bound to another lock refuses the write.
///
/// All of this happens in the same atomic step as the write, and before versions are compared. A write
/// without a token is not checked and leaves the binding as it is.
///
/// *Queues.* A record that is created with CreateRecord::queue is in the queue of its owner until a write
/// that leaves it. Claims, ends of leases and the order are changed in the same atomic step as the record.
/// The fence of a claim is higher than all earlier ones of the record; its authority and lock key are the
/// engine's choice, and the same for all claims of one record. Due times follow the engine's wall clock;
/// leases run on the clock that its locks run on.
///
/// *Output.* AppendOutput and ReadOutput keep the output of commands beside a record: it expires and is
/// removed with it.
///
/// *Order of checks:* absent, fence, version. A refused write changes nothing.
///
/// *Threads and fork:* as LockBackend.
class HOLDFAST_EXPORT StorageBackend
    : public Contract<GetRecord, CreateRecord, PutRecord, RemoveRecord, BindRecord, RebindRecord, ListRecords,
                      ListOwners, CleanupRecords, WatchRecord, FollowRecords, ClaimNext, ClaimRecord,
                      RenewLeases, EndLease, CountQueue, ConfigureQueue, WatchQueue, AppendOutput,
                      ReadOutput> {
 public:
  /// The list of request types, for templates over all of them (Intercepting).
  using Operations = Contract;

  /// Returns the engine's name, as Capabilities::backend.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Returns whether operations block the thread that starts them, as Capabilities::blocks.
  [[nodiscard]] virtual bool blocks() const noexcept = 0;

  /// Returns the engine's wall clock as far as this process knows it, without asking a server. For the times
  /// in new records.
  [[nodiscard]] virtual WallTime now() const = 0;

  /// Returns a descriptor that stands for this process: a lease that was claimed with
  /// ClaimTerms::ends_with_process is treated as expired by claims when no process has a copy of it any more.
  /// Give a copy to other processes that do the work. It is the backend's, and close-on-exec. -1 if the
  /// engine does not notice the end of a process: then leases expire by time only.
  [[nodiscard]] virtual int process_mark() noexcept { return -1; }

  /// Blocks until the operation of this completion is finished, as LockBackend::wait.
  virtual void wait(Completion& completion);
};

}  // namespace holdfast
