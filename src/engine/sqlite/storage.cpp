#include "engine/sqlite/storage.hpp"

#include <algorithm>
#include <chrono>

#include "core/fence_guard.hpp"
#include "core/liveness.hpp"
#include "core/record_request.hpp"
#include "engine/sqlite/access.hpp"
#include "engine/sqlite/storage_table.hpp"
#include "sys/incarnation.hpp"

namespace holdfast::sqlite {
namespace {

/// What a record's watchers sleep on. Locks share the file, and a release wakes only one: so this must be no
/// lock's key, which is UTF-8.
std::string wake_key(const RecordKey& key) {
  return '\xFF' + key.str();
}

/// Records that nobody asks for again are deleted by those who create others, some at a time. Not before they
/// have been dead for long: a wall clock that is wrong for a moment shall hide records, not destroy them.
constexpr std::int64_t forget_after_ms = std::chrono::milliseconds(std::chrono::hours(24)).count();
constexpr std::size_t forget_per_create = 2;
/// One transaction of a cleanup: others get their turn in between.
constexpr std::size_t cleanup_batch = 500;

class SqliteStorageBackend final : public StorageBackend {
 public:
  SqliteStorageBackend(const std::filesystem::path& file, const SqliteOptions& options,
                       std::shared_ptr<Log> log, Clock clock, const Patience& patience)
      : access_(file, options, std::move(log), std::move(clock), patience) {}

  std::string_view name() const noexcept override { return sqlite_capabilities.backend; }
  bool blocks() const noexcept override { return sqlite_capabilities.blocks; }
  std::int64_t now_ms() const override { return access_.clock().wall_ms(); }

  void get(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    done(access_.operate<std::optional<StoredRecord>>(request.deadline, std::move(stop),
                                                      {.key = request.key.str(), .id = {}},
                                                      [&]() -> std::optional<StoredRecord> {
                                                        const Database::View view(access_.database());
                                                        auto found = table().find(request.key);
                                                        access_.database().check_clock(found.clock);
                                                        if (!found.row || is_due(*found.row, now_ms()))
                                                          return std::nullopt;
                                                        return std::move(found.row->record);
                                                      }));
  }

  void create(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_origin(request.origin)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(change<CreateOutcome>(request, std::move(stop),
                               [&](Transaction& transaction) { return try_create(request, transaction); }));
  }

  void put(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    done(change<PutOutcome>(request, std::move(stop),
                            [&](Transaction& transaction) { return try_put(request, transaction); }));
  }

  void remove(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    done(change<RemoveOutcome>(request, std::move(stop), [&](Transaction& transaction) -> RemoveOutcome {
      const auto row = live(table().find_head(request.key));
      if (!row) return NoRecord{};
      if (auto refusal = core::refuse_write(row->record, request.fence, request.expected)) {
        return core::outcome_of<RemoveOutcome>(*std::move(refusal));
      }
      table().remove(request.key);
      transaction.changes_the_record();
      return Removed{};
    }));
  }

  void guard(GuardRecord request, std::stop_token stop, Done<GuardOutcome> done) override {
    done(change<GuardOutcome>(request, std::move(stop), [&](Transaction& transaction) -> GuardOutcome {
      auto row = live(table().find(request.key));
      if (!row || !core::is_meant(row->record, request.incarnation)) return NoRecord{};
      if (auto refusal = core::refuse_fence(row->record.guarded_by, request.fence)) {
        return core::outcome_of<GuardOutcome>(*std::move(refusal));
      }
      return guarded_by(request.fence, request.key, *std::move(row), transaction);
    }));
  }

  void rebind(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    done(change<RebindOutcome>(request, std::move(stop), [&](Transaction& transaction) -> RebindOutcome {
      auto row = live(table().find(request.key));
      if (!row) return NoRecord{};
      if (core::is_left_alone(row->record.guarded_by, request.from_authority)) return std::move(row->record);
      return guarded_by(request.fence, request.key, *std::move(row), transaction);
    }));
  }

  void list(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    const auto owner = core::listed_owner(request.prefix);
    if (!owner) {
      done(owner.error());
      return;
    }
    done(access_.operate<RecordPage>(
        request.deadline, std::move(stop), {.key = request.prefix, .id = {}}, [&] {
          const Database::View view(access_.database());
          auto page = table().page({.owner = *owner,
                                    .after = std::move(request.after),
                                    .order = request.order,
                                    .now_ms = now_ms(),
                                    .max_records = std::clamp<std::size_t>(request.limit, 1, max_record_page),
                                    .max_bytes = max_record_page_bytes});
          access_.database().check_clock(page.clock);
          return std::move(page.page);
        }));
  }

  void list_owners(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
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

  void cleanup_expired(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    const auto now = now_ms();
    std::size_t removed = 0;
    for (;;) {
      const auto batch = access_.operate<std::size_t>(request.deadline, stop, {}, [&] {
        Transaction transaction(access_.database());
        access_.database().check_clock(table().clock());
        const auto count = table().remove_expired(now, cleanup_batch);
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

  std::unique_ptr<Watch> watch(const RecordKey& key, BootTime, std::stop_token) override {
    auto* wake = access_.wake();
    return wake != nullptr ? wake->watch(wake_key(key), sys::Wakes::all) : nullptr;
  }

 private:
  /// One change of the file, and whether there is one. Every answer is on disk before it is given: what was
  /// changed, and what was found and answered instead of a change.
  class Transaction {
   public:
    explicit Transaction(Database& database) : change_(database, Durability::machine) {
      database.check_unmoved();
    }
    void changes_the_record() noexcept { record_changed_ = file_changed_ = true; }
    /// Dead records went; nobody needs to know.
    void changes_the_file() noexcept { file_changed_ = true; }
    [[nodiscard]] bool record_changed() const noexcept { return record_changed_; }
    void end() {
      if (file_changed_) {
        change_.commit();
      } else {
        change_.keep_what_was_found();
      }
    }

   private:
    Database::Change change_;
    bool record_changed_ = false;
    bool file_changed_ = false;
  };

  StorageTable& table() noexcept { return access_.table(); }

  static bool is_due(const RecordRow& row, std::int64_t now) {
    return row.expires_at_ms && core::is_due(*row.expires_at_ms, now);
  }

  template <class T, class Request, class Body>
  Result<T> change(Request& request, std::stop_token stop, Body body) {
    bool changed = false;
    auto result =
        access_.operate<T>(request.deadline, std::move(stop), {.key = request.key.str(), .id = {}}, [&] {
          Transaction transaction(access_.database());
          T outcome = body(transaction);
          transaction.end();
          changed = transaction.record_changed();
          return outcome;
        });
    if (auto* wake = access_.wake(); changed && wake != nullptr) wake->wake_all(wake_key(request.key));
    return result;
  }

  /// The row, if it is live.
  std::optional<RecordRow> live(StorageTable::Found found) {
    access_.database().check_clock(found.clock);
    if (found.row && is_due(*found.row, now_ms())) return std::nullopt;
    return std::move(found.row);
  }

  CreateOutcome try_create(CreateRecord& request, Transaction& transaction) {
    if (auto row = live(table().find(request.key))) {
      return AlreadyThere{std::move(row->record)};
    }
    if (request.quota) {
      const auto owner = request.key.owner();
      auto records = table().count(owner);
      // Dead rows count until somebody needs their room: then they go, by their time, so that a create costs
      // the same however many live ones there are.
      if (records >= *request.quota && table().remove_expired(owner, now_ms()) > 0) {
        transaction.changes_the_file();
        records = table().count(owner);
      }
      if (records >= *request.quota) return QuotaReached{records};
    }
    static_cast<void>(table().remove_expired(now_ms() - forget_after_ms, forget_per_create));
    return insert(request.key, request.data, request.fence, request.origin, transaction);
  }

  PutOutcome try_put(PutRecord& request, Transaction& transaction) {
    auto row = live(table().find_head(request.key));
    if (!row) {
      if (request.expected || (request.fence && !request.fenced_may_create)) return NoRecord{};
      return insert(request.key, request.data, request.fence, {}, transaction);
    }
    if (auto refusal = core::refuse_write(row->record, request.fence, request.expected)) {
      return core::outcome_of<PutOutcome>(*std::move(refusal));
    }
    ++row->record.version;
    row->expires_at_ms = request.data.expires_at_ms();
    if (request.fence) row->record.guarded_by = request.fence;
    table().update(request.key, *row, request.data.text());
    transaction.changes_the_record();
    return Written{.version = row->record.version, .incarnation = std::move(row->record.incarnation)};
  }

  Written insert(const RecordKey& key, const RecordData& data, const std::optional<FencingToken>& fence,
                 const std::string& origin, Transaction& transaction) {
    RecordRow row{.record = {.data = {},
                             .version = 1,
                             .incarnation = sys::new_incarnation(),
                             .guarded_by = fence,
                             .origin = origin},
                  .created_at_ms = data.created_at_ms(),
                  .expires_at_ms = data.expires_at_ms()};
    table().remove(key);  // a dead one, if any
    table().insert(key, row, data.text());
    transaction.changes_the_record();
    return {.version = row.record.version, .incarnation = std::move(row.record.incarnation)};
  }

  StoredRecord guarded_by(const std::optional<FencingToken>& token, const RecordKey& key, RecordRow row,
                          Transaction& transaction) {
    if (row.record.guarded_by != token) {
      row.record.guarded_by = token;
      table().set_guard(key, token);
      transaction.changes_the_record();
    }
    return std::move(row.record);
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
