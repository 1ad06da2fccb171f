#include "engine/sqlite/backends.hpp"

#include <algorithm>
#include <chrono>

#include "core/record_decisions.hpp"
#include "core/record_request.hpp"
#include "engine/sqlite/access.hpp"
#include "engine/sqlite/storage_table.hpp"
#include "os/random.hpp"

namespace holdfast::sqlite {
namespace {

/// The wake key of a record's watchers. Locks share the wake file, and a release wakes only one sleeper: so
/// this must not be a lock's key, which is UTF-8.
std::string wake_key(const RecordKey& key) {
  return '\xFF' + key.str();
}

/// Each create deletes some rows that expired long ago, of any owner, so that they do not accumulate. The
/// delay matters: a wall clock that is wrong for a moment must hide records, not destroy them.
constexpr std::chrono::hours delete_after(24);
constexpr std::size_t deletes_per_create = 2;
/// One transaction of a cleanup; other writers may commit in between.
constexpr std::size_t cleanup_batch = 500;

/// A transaction that is answered after its data is on disk: its changes, or, without a change, the data that
/// it read.
class RecordTransaction {
 public:
  explicit RecordTransaction(Database& database) : change_(database, Durability::machine) {
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
               std::optional<core::RecordEntry> there, WallTime now)
      : transaction_(transaction), table_(table), key_(key), there_(std::move(there)), now_(now) {}

  [[nodiscard]] WallTime now() const noexcept { return now_; }
  [[nodiscard]] const core::RecordEntry* there() const noexcept { return address_of(there_); }
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }
  /// For Insert and Update.
  void use(const RecordData& data) noexcept { data_ = &data; }

  /// The number of the owner's live records. A result below `limit` may include expired ones: they are
  /// deleted, oldest expiry first, only if the limit would be reached. So a create costs the same for any
  /// number of live ones.
  std::size_t count(std::size_t limit) {
    const auto records = table_.count(key_.owner());
    if (records < limit || table_.remove_expired(key_.owner(), now_) == 0) return records;
    transaction_.changes_the_file();
    return table_.count(key_.owner());
  }
  void delete_long_expired() {
    if (table_.remove_expired(now_ - delete_after, deletes_per_create) > 0) transaction_.changes_the_file();
  }

  Written operator()(core::Insert insert) {
    auto& record = insert.entry.record;
    record.incarnation = os::new_incarnation();
    table_.remove(key_);
    table_.insert(key_, insert.entry, data_->text());
    make();
    return {.version = record.version, .incarnation = std::move(record.incarnation)};
  }
  Written operator()(const core::Update& update) {
    table_.update(key_, update, data_->text());
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
    transaction_.changes_the_file();
  }

  RecordTransaction& transaction_;
  const StorageTable& table_;
  const RecordKey& key_;
  std::optional<core::RecordEntry> there_;
  const WallTime now_;
  const RecordData* data_ = nullptr;
  bool is_made_ = false;
};

class SqliteStorageBackend final : public StorageBackend {
 public:
  SqliteStorageBackend(const std::filesystem::path& file, const SqliteOptions& options,
                       std::shared_ptr<Log> log, Clock clock, const WaitLimit& limit)
      : access_(file, options, std::move(log), std::move(clock), limit) {}

  std::string_view name() const noexcept override { return sqlite_capabilities.backend; }
  bool blocks() const noexcept override { return sqlite_capabilities.blocks; }
  WallTime now() const override { return access_.clock().wall(); }

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
    if (auto refused = core::refuse_origin(request.origin)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(change<CreateOutcome>(request, std::move(stop), &StorageTable::find, [&](RecordChange& record) {
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
          const Database::View view(access_.database());
          auto page = table().page({.owner = *owner,
                                    .after = request.after,
                                    .order = request.order,
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
      const Database::View view(access_.database());
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
  StorageTable& table() noexcept { return access_.table(); }

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
    bool changed = false;
    auto result = access_.operate<Outcome>(
        request.deadline, std::move(stop), {.key = request.key.str(), .id = {}}, [&] {
          RecordTransaction transaction(access_.database());
          RecordChange record(transaction, table(), request.key, checked((table().*find)(request.key)),
                              now());
          if constexpr (requires { request.data; }) record.use(request.data);
          auto outcome = core::carry_out<Outcome>(decide(record), record);
          transaction.end();
          changed = record.is_made();
          return outcome;
        });
    if (auto* wake = access_.wake(); changed && wake != nullptr) wake->wake_all(wake_key(request.key));
    return result;
  }

  Access<StorageTable> access_;
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
