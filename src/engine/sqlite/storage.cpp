#include "engine/sqlite/backends.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "core/output_decisions.hpp"
#include "core/queue_step_decisions.hpp"
#include "core/record_decisions.hpp"
#include "core/record_request.hpp"
#include "engine/sqlite/access.hpp"
#include "engine/sqlite/fence_reserve.hpp"
#include "engine/sqlite/queue.hpp"
#include "engine/sqlite/storage_table.hpp"
#include "os/random.hpp"

namespace holdfast::sqlite {
namespace {

/// The wake key of a record's watchers. Locks share the wake file, and a release wakes only one sleeper: so
/// this must not be a lock's key, which is UTF-8.
std::string wake_key(const RecordKey& key) {
  return '\xFF' + key.str();
}
/// The wake key of a queue's watchers. An owner has no colon, so it is no record's.
std::string wake_key(std::string_view owner) {
  return '\xFF' + std::string(owner);
}

/// Each create deletes some rows that expired long ago, of any owner, so that they do not accumulate. The
/// delay matters: a wall clock that is wrong for a moment must hide records, not destroy them.
constexpr std::chrono::hours delete_after(24);
constexpr std::size_t deletes_per_create = 2;
/// One transaction of a cleanup; other writers may commit in between.
constexpr std::size_t cleanup_batch = 500;
/// How many expired rows of its owner a create at the quota deletes: other writers wait for it, and a row may
/// have megabytes, which a SQLite with secure_delete overwrites.
constexpr std::size_t deletes_at_quota = 20;
/// An attempt number with a long pause, for a claim that waits for fences.
constexpr int late_claim = 1000;

/// A transaction that, with Durability::machine, is answered after its data is on disk: its changes, or,
/// without a change, the data that it read.
class RecordTransaction {
 public:
  explicit RecordTransaction(Database& database, Durability durability = Durability::machine)
      : change_(database, durability) {
    change_.check_unmoved();
  }
  void changes_the_file() noexcept { file_changed_ = true; }
  void end() {
    if (file_changed_) {
      change_.commit();
    } else {
      change_.keep_what_was_found();
    }
  }

 private:
  Database::Change change_;
  bool file_changed_ = false;
};

const core::RecordEntry* address_of(const std::optional<core::RecordEntry>& entry) noexcept {
  return entry ? &*entry : nullptr;
}

/// Carries out core's decision about one record, inside a transaction.
class RecordChange {
 public:
  RecordChange(RecordTransaction& transaction, const StorageTable& table, const RecordKey& key,
               std::optional<core::RecordEntry> there, core::QueueTime now, const std::string& authority)
      : transaction_(transaction),
        table_(table),
        key_(key),
        there_(std::move(there)),
        now_(now),
        queue_(table, key.owner(), now, authority),
        steps_(queue_, now) {}

  /// What the queue offers to workers.
  [[nodiscard]] core::QueueOffer offer() { return steps_.offer(); }
  /// The keys of the queue's other records that were changed.
  [[nodiscard]] const std::vector<RecordKey>& changed_in_queue() const noexcept { return queue_.changed(); }

  [[nodiscard]] WallTime now() const noexcept { return now_.wall; }
  [[nodiscard]] const core::RecordEntry* there() const noexcept { return address_of(there_); }
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }
  /// For Insert and Update.
  void use(const RecordData& data) noexcept { data_ = &data; }
  /// For Insert.
  void enter_queue(const QueueTerms& terms) noexcept { terms_ = &terms; }
  /// For Update.
  void limit_dead(std::optional<std::size_t> most) noexcept { max_dead_ = most; }

  /// The number of the owner's live records; a result below `limit` may include expired ones. These are
  /// looked for, and some of them deleted, only if the limit would be reached. So a create costs the same for
  /// any number of records.
  std::size_t count(std::size_t limit) {
    const auto records = table_.count(key_.owner());
    if (records < limit) return records;
    const auto enough = records - limit + 1;
    const auto expired = table_.count_expired(key_.owner(), now_.wall, enough);
    if (expired == 0) return records;
    if (table_.remove_expired(key_.owner(), now_.wall, deletes_at_quota) > 0) changes_rows();
    return records - expired;
  }
  void delete_long_expired() {
    for (std::size_t i = 0; i < deletes_per_create; ++i) {
      if (!table_.remove_first_expired(now_.wall - delete_after)) return;
      changes_rows();
    }
  }

  Written operator()(core::Insert insert) {
    auto& record = insert.entry.record;
    record.incarnation = os::new_incarnation();
    if (there_) table_.remove(key_);
    table_.insert(key_, insert.entry, data_->text());
    make();
    if (terms_ != nullptr) {
      const auto next = queue_.head().next_sequence;
      queue_.insert(key_, steps_.admitted(core::enter_queue(*terms_, now_.wall, next)));
    }
    return {.version = record.version, .incarnation = std::move(record.incarnation)};
  }
  Written operator()(const core::Update& update) {
    table_.update(key_, update, data_->text());
    if (update.leaves_queue && there_->queue) {
      steps_.leave(std::string(key_.task()), *there_->queue, max_dead_);
    }
    make();
    return {.version = update.version, .incarnation = std::move(there_->record.incarnation)};
  }
  StoredRecord operator()(core::SetGuard set) {
    table_.set_guard(key_, set.bound_to);
    make();
    there_->record.bound_to = std::move(set.bound_to);
    return std::move(there_->record);
  }
  Removed operator()(core::Remove) {
    table_.remove(key_);
    make();
    return {};
  }
  StoredRecord operator()(core::Unchanged) { return std::move(there_->record); }
  AlreadyThere operator()(core::Existing) { return {std::move(there_->record)}; }

 private:
  void make() noexcept {
    is_made_ = true;
    changes_rows();
  }
  void changes_rows() noexcept {
    transaction_.changes_the_file();
    queue_.changed_elsewhere();
  }

  RecordTransaction& transaction_;
  const StorageTable& table_;
  const RecordKey& key_;
  std::optional<core::RecordEntry> there_;
  const core::QueueTime now_;
  SqliteQueue queue_;
  core::QueueSteps<SqliteQueue> steps_;
  const RecordData* data_ = nullptr;
  const QueueTerms* terms_ = nullptr;
  std::optional<std::size_t> max_dead_;
  bool is_made_ = false;
};

class SqliteStorageBackend final : public StorageBackend {
 public:
  SqliteStorageBackend(const std::filesystem::path& file, const SqliteOptions& options,
                       std::shared_ptr<Log> log, Clock clock, const WaitLimit& limit)
      : access_(file, options, std::move(log), std::move(clock), limit),
        authority_(access_.database().authority()) {}

  std::string_view name() const noexcept override { return sqlite_capabilities.backend; }
  bool blocks() const noexcept override { return sqlite_capabilities.blocks; }
  WallTime now() const override { return access_.clock().wall(); }
  int process_mark() noexcept override {
    auto* const wake = access_.wake();
    auto* const processes = wake != nullptr ? wake->processes() : nullptr;
    return processes != nullptr ? processes->descriptor() : -1;
  }

  void submit(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    using Found = std::optional<StoredRecord>;
    done(access_.operate<Found>(request.deadline, std::move(stop), {.key = request.key.str(), .id = {}},
                                [&]() -> Found {
                                  const Database::View view(access_.database());
                                  auto row = checked(table().find(request.key));
                                  if (!core::is_present(address_of(row), now())) return std::nullopt;
                                  return std::move(row->record);
                                }));
  }

  void submit(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_create(request)) return done(*std::move(refused));
    done(change<CreateOutcome>(request, std::move(stop), &StorageTable::find, [&](RecordChange& record) {
      if (request.queue) record.enter_queue(*request.queue);
      const bool counts = core::needs_count(request, record.there(), record.now());
      const auto records = counts ? record.count(*request.quota) : 0;
      auto decision = core::decide_create(request, record.there(), records, record.now());
      if (std::holds_alternative<core::Insert>(decision)) record.delete_long_expired();
      return decision;
    }));
  }

  void submit(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    done(change<PutOutcome>(request, std::move(stop), &StorageTable::find_head, [&](RecordChange& record) {
      return core::decide_put(request, record.there(), record.now());
    }));
  }

  void submit(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    done(change<RemoveOutcome>(request, std::move(stop), &StorageTable::find_head, [&](RecordChange& record) {
      return core::decide_remove(request, record.there(), record.now());
    }));
  }

  void submit(BindRecord request, std::stop_token stop, Done<BindOutcome> done) override {
    done(change<BindOutcome>(request, std::move(stop), &StorageTable::find, [&](RecordChange& record) {
      return core::decide_bind(request, record.there(), record.now());
    }));
  }

  void submit(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    done(change<RebindOutcome>(request, std::move(stop), &StorageTable::find, [&](RecordChange& record) {
      return core::decide_rebind(request, record.there(), record.now());
    }));
  }

  void submit(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    const auto owner = core::listed_owner(request.prefix);
    if (!owner) {
      done(owner.error());
      return;
    }
    done(access_.operate<RecordPage>(
        request.deadline, std::move(stop), {.key = request.prefix, .id = {}}, [&] {
          const Database::View view(access_.database(), Database::Reads::several);
          auto page = table().page({.owner = *owner,
                                    .after = request.after,
                                    .order = request.order,
                                    .only_dead = request.only_dead,
                                    .now = now(),
                                    .max_records = std::clamp<std::size_t>(request.limit, 1, max_record_page),
                                    .max_bytes = max_record_page_bytes});
          access_.database().check_clock(page.clock);
          return std::move(page.page);
        }));
  }

  void submit(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    done(access_.operate<OwnerPage>(request.deadline, std::move(stop), {}, [&] {
      const auto after = core::owner_before(request.cursor).value_or_throw();
      const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
      const Database::View view(access_.database(), Database::Reads::several);
      access_.database().check_clock(table().clock());
      OwnerPage page{.owners = table().owners(after, limit + 1), .cursor = {}};
      if (page.owners.size() > limit) {
        page.owners.pop_back();
        page.cursor = core::cursor_behind(page.owners.back());
      }
      return page;
    }));
  }

  void submit(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    const auto by = now();
    std::size_t removed = 0;
    for (;;) {
      const auto batch = access_.operate<std::size_t>(request.deadline, stop, {}, [&] {
        RecordTransaction transaction(access_.database());
        access_.database().check_clock(table().clock());
        const auto count = table().remove_expired(by, cleanup_batch);
        if (count > 0) transaction.changes_the_file();
        transaction.end();
        return count;
      });
      if (!batch) {
        done(batch.error());
        return;
      }
      removed += *batch;
      if (*batch < cleanup_batch) break;
    }
    done(removed);
  }

  void submit(ClaimNext request, std::stop_token stop, Done<ClaimedRecords> done) override {
    done(work(request, request.owner, Durability::process, std::move(stop),
              [&](SqliteQueue&, Steps& steps) { return steps.claim_next(request.terms, request.searched); }));
  }
  void submit(ClaimRecord request, std::stop_token stop, Done<ClaimOutcome> done) override {
    done(work(request, request.key.owner(), Durability::process, std::move(stop),
              [&](SqliteQueue&, Steps& steps) { return steps.claim(request); }));
  }
  void submit(RenewLeases request, std::stop_token stop, Done<std::vector<RenewedLease>> done) override {
    done(work(request, request.owner, Durability::process, std::move(stop),
              [&](SqliteQueue&, Steps& steps) { return Result(steps.renew(request)); }));
  }
  void submit(EndLease request, std::stop_token stop, Done<EndedLease> done) override {
    done(work(request, request.key.owner(), Durability::machine, std::move(stop),
              [&](SqliteQueue&, Steps& steps) { return Result(steps.end(request)); }));
  }
  void submit(ConfigureQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    done(work(request, request.owner, Durability::machine, std::move(stop),
              [&](SqliteQueue& queue, Steps&) { return Result(queue.configure(request)); }));
  }
  void submit(CountQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    if (auto refused = core::refuse_arguments(request)) {
      done(refused->about(request.owner, {}));
      return;
    }
    done(access_.operate<QueueCounts>(
        request.deadline, std::move(stop), {.key = request.owner, .id = {}}, [&] {
          const Database::View view(access_.database(), Database::Reads::several);
          access_.database().check_clock(table().clock());
          return queue_of(request.owner).count();
        }));
  }

  /// Not FULL: after a power cut the end of an output may be missing.
  void submit(AppendOutput request, std::stop_token stop, Done<AppendOutcome> done) override {
    if (auto refused = core::refuse_arguments(request)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(access_.operate<AppendOutcome>(
        request.deadline, std::move(stop), {.key = request.key.str(), .id = {}}, [&]() -> AppendOutcome {
          RecordTransaction transaction(access_.database(), Durability::process);
          const auto there = checked(table().find_head(request.key));
          auto decision = core::decide_append(
              request, address_of(there),
              there ? table().outputs().runs(request.key) : std::vector<core::StoredRun>(), now());
          auto outcome =
              core::carry_out<AppendOutcome>(std::move(decision), [&](const core::OutputChange& change) {
                if (change.bound_to) table().set_guard(request.key, change.bound_to);
                table().outputs().apply(request.key, change);
                transaction.changes_the_file();
                return change.run.run;
              });
          transaction.end();
          return outcome;
        }));
  }
  void submit(ReadOutput request, std::stop_token stop, Done<std::optional<KeptOutput>> done) override {
    using Kept = std::optional<KeptOutput>;
    done(access_.operate<Kept>(
        request.deadline, std::move(stop), {.key = request.key.str(), .id = {}}, [&]() -> Kept {
          const Database::View view(access_.database(), Database::Reads::several);
          const auto there = checked(table().find_head(request.key));
          if (!core::is_present(address_of(there), now())) return std::nullopt;
          if (!core::is_meant(there->record, request.incarnation)) return std::nullopt;
          std::string chunk;
          return core::read_output(request, table().outputs().runs(request.key),
                                   [&](std::uint64_t run, std::size_t stream, std::uint64_t number) {
                                     chunk = table().outputs().chunk(request.key, run, stream, number);
                                     return std::string_view(chunk);
                                   });
        }));
  }

  void submit(WatchQueue request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    auto* wake = access_.wake();
    done(wake != nullptr ? wake->watch(wake_key(request.owner), waiting::Wakes::one) : nullptr);
  }

  void submit(WatchRecord request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    auto* wake = access_.wake();
    done(wake != nullptr ? wake->watch(wake_key(request.key), waiting::Wakes::all) : nullptr);
  }
  /// Locks and records share the file of wake-ups, so each feed reports changes of both.
  void submit(FollowRecords, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    auto* wake = access_.wake();
    done(wake != nullptr ? wake->follow() : nullptr);
  }

 private:
  using Steps = core::QueueSteps<SqliteQueue>;

  StorageTable& table() noexcept { return access_.table(); }
  /// Both clocks, at about the same moment.
  [[nodiscard]] core::QueueTime queue_time() const {
    return {.wall = access_.clock().wall(), .leases = access_.clock().boot()};
  }
  /// When the queue was last searched for leases of processes that have ended. Requires the connection.
  std::chrono::milliseconds& looked_at(std::string_view owner) {
    constexpr std::size_t most_remembered = 10'000;
    if (looked_at_.size() >= most_remembered) looked_at_.clear();
    return looked_at_[std::string(owner)];
  }
  SqliteQueue queue_of(std::string_view owner) { return {table(), owner, queue_time(), authority_}; }

  /// The row, live or expired, of a file that is used under our clock.
  std::optional<core::RecordEntry> checked(StorageTable::Found found) {
    access_.database().check_clock(found.clock);
    return std::move(found.row);
  }

  /// Runs one change of a record, and wakes the record's watchers if it changed. `find` reads as much of the
  /// record as the outcome needs; `decide` returns a decision of core.
  template <class Outcome, class Request, class Decide>
  Result<Outcome> change(const Request& request, std::stop_token stop, StorageTable::Find find,
                         Decide decide) {
    bool changed = false, wakes_worker = false;
    std::vector<RecordKey> changed_in_queue;
    auto result = access_.operate<Outcome>(
        request.deadline, std::move(stop), {.key = request.key.str(), .id = {}}, [&] {
          RecordTransaction transaction(access_.database());
          RecordChange record(transaction, table(), request.key, checked((table().*find)(request.key)),
                              queue_time(), authority_);
          if constexpr (requires { request.data; }) record.use(request.data);
          if constexpr (requires { request.max_dead; }) record.limit_dead(request.max_dead);
          bool in_queue = record.there() != nullptr && record.there()->queue != nullptr;
          if constexpr (requires { request.queue; }) in_queue = in_queue || request.queue;
          const auto before = in_queue ? record.offer() : core::QueueOffer{};
          auto outcome = core::carry_out<Outcome>(decide(record), record);
          if (in_queue) wakes_worker = core::wakes_worker(before, record.offer());
          transaction.end();
          changed = record.is_made();
          changed_in_queue = record.changed_in_queue();
          return outcome;
        });
    auto* wake = access_.wake();
    if (!result || wake == nullptr) return result;
    if (changed) wake->wake_all(wake_key(request.key));
    for (const auto& key : changed_in_queue) wake->wake_all(wake_key(key));
    if (changed && wakes_worker) wake->wake_one(wake_key(request.key.owner()));
    return result;
  }

  /// Runs one operation on a queue, and wakes the watchers of the records that it changed, and a worker if
  /// there is a reason. `body` returns a result.
  template <class Request, class Body>
  Result<typename Request::Outcome> work(const Request& request, std::string_view owner,
                                         Durability durability, std::stop_token stop, Body body) {
    using Outcome = typename Request::Outcome;
    std::string subject(request.subject().key);
    if (auto refused = core::refuse_arguments(request)) return refused->about(std::move(subject), {});
    std::vector<RecordKey> changed;
    bool wakes_worker = false;
    const auto attempt = [&](LowReserve when_low) {
      RecordTransaction transaction(access_.database(), durability);
      const auto file = table().queues().file();
      access_.database().check_clock(file.clock);
      const auto now = queue_time();
      SqliteQueue queue(table(), owner, now, authority_);
      auto* const wake = access_.wake();
      queue.use(file.fences, when_low, wake != nullptr ? wake->processes() : nullptr, &looked_at(owner));
      Steps steps(queue, now);
      const auto before = steps.offer();
      auto outcome = body(queue, steps).value_or_throw();
      queue.finish();
      wakes_worker = core::wakes_worker(before, steps.offer());
      changed = queue.changed();
      if (queue.has_changed_file()) transaction.changes_the_file();
      transaction.end();
      return outcome;
    };
    auto result = access_.operate<Outcome>(request.deadline, std::move(stop),
                                           {.key = std::move(subject), .id = {}}, [&]() -> Outcome {
                                             try {
                                               return attempt(LowReserve::keep_up);
                                             } catch (const FencesNeeded&) {
                                               // Rolled back: nothing was claimed.
                                             }
                                             for (;;) {
                                               reserve_fences(access_.database());
                                               try {
                                                 return attempt(LowReserve::use_up);
                                               } catch (const FencesNeeded&) {
                                                 // The log could not be copied: another user is copying it,
                                                 // or is reading the file for long.
                                                 access_.database().connection().pause(late_claim);
                                               }
                                             }
                                           });
    auto* wake = access_.wake();
    if (!result || wake == nullptr) return result;
    for (const auto& key : changed) wake->wake_all(wake_key(key));
    // A claim is itself the attention that a delay or a lease that ended needs.
    constexpr bool claims = std::is_same_v<Request, ClaimNext> || std::is_same_v<Request, ClaimRecord>;
    if (wakes_worker && !claims) wake->wake_one(wake_key(owner));
    return result;
  }

  Access<StorageTable> access_;
  const std::string authority_;
  std::unordered_map<std::string, std::chrono::milliseconds> looked_at_;  ///< by queue
};

}  // namespace

Result<std::shared_ptr<StorageBackend>> open_storage_backend(const std::filesystem::path& file,
                                                             const SqliteOptions& options,
                                                             std::shared_ptr<Log> log, Clock clock) {
  return open_backend<SqliteStorageBackend, StorageBackend>(file, options, std::move(log), std::move(clock));
}

}  // namespace holdfast::sqlite

namespace holdfast {

Result<std::shared_ptr<StorageBackend>> make_sqlite_storage_backend(const std::filesystem::path& file,
                                                                    const SqliteOptions& options,
                                                                    std::shared_ptr<Log> log) {
  auto clock = sqlite::machine_clock();
  if (!clock) return clock.error();
  return sqlite::open_storage_backend(file, options, std::move(log), *std::move(clock));
}

}  // namespace holdfast
