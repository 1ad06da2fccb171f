#include "engine/sqlite/backends.hpp"

#include <algorithm>

#include "core/lock_decisions.hpp"
#include "engine/sqlite/access.hpp"
#include "engine/sqlite/fence_reserve.hpp"
#include "engine/sqlite/lock_table.hpp"

namespace holdfast::sqlite {
namespace {

using LockAccess = Access<LockTable>;

/// One grant in this many visits other rows and deletes the expired ones: two rows per grant on average, at a
/// quarter of the cost of two rows each time.
constexpr std::uint64_t grants_between_sweeps = 8;
constexpr std::size_t rows_per_sweep = 16;
/// An attempt number with a long pause.
constexpr int late_attempt = 1000;

LockAccess::ErrorContext context_of(const LockRef& lock) {
  return {.key = lock.key ? lock.key->str() : std::string(), .id = std::string(lock.id.str())};
}

/// Work to do after the transaction, when the connection is free.
struct AfterCommit {
  std::optional<LockKey> freed;
  std::optional<std::string> warning;
};

class SqliteLockBackend final : public LockBackend {
 public:
  SqliteLockBackend(const std::filesystem::path& file, const SqliteOptions& options, std::shared_ptr<Log> log,
                    Clock clock, const WaitLimit& limit)
      : access_(file, options, std::move(log), std::move(clock), limit),
        authority_(access_.database().authority()) {}

  Capabilities capabilities() const noexcept override { return sqlite_capabilities; }
  std::string authority() const override { return authority_; }

  void submit(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    if (auto refused = core::refuse_replicas(request.min_replicas)) return done(*std::move(refused));
    const LockAccess::ErrorContext about{.key = request.key.str(), .id = std::string(request.id.str())};
    done(operate<AcquireOutcome>(request.deadline, std::move(stop), about, [&](AfterCommit& after) {
      auto outcome = try_acquire(request, after, Reserve::keep_up);
      while (!outcome) {
        reserve_fences(database());
        outcome = try_acquire(request, after, Reserve::use_up);
        // The log could not be copied: another user is copying it, or is reading the file for long.
        if (!outcome) database().connection().pause(late_attempt);
      }
      return *std::move(outcome);
    }));
  }

  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    done(operate<ReleaseOutcome>(request.deadline, std::move(stop), context_of(request.lock),
                                 [&](AfterCommit& after) { return try_release(request, after); }));
  }

  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    if (auto refused = core::refuse_replicas(request.min_replicas)) return done(*std::move(refused));
    done(operate<ExtendOutcome>(request.deadline, std::move(stop), context_of(request.lock),
                                [&](AfterCommit& after) { return try_extend(request, after); }));
  }

  void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    done(operate<bool>(request.deadline, std::move(stop), {.key = request.key.str(), .id = {}},
                       [&](AfterCommit&) {
                         const Database::View view(database());
                         return core::is_held(lease_of(find(request.key)), clock().boot());
                       }));
  }

  void submit(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    LockAccess::ErrorContext about;
    if (const auto* key = std::get_if<LockKey>(&request.what)) about.key = key->str();
    if (const auto* id = std::get_if<LockId>(&request.what)) about.id = id->str();
    done(operate<std::optional<LockRecord>>(
        request.deadline, std::move(stop), about, [&](AfterCommit&) -> std::optional<LockRecord> {
          const Database::View view(database());
          auto row = std::visit([&](const auto& what) { return find(what); }, request.what);
          if (!core::is_held(lease_of(row), clock().boot())) return std::nullopt;
          return std::move(row->record);
        }));
  }

  void submit(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    done(operate<LockPage>(request.deadline, std::move(stop), {}, [&](AfterCommit&) {
      return request.only.empty() ? page(request) : read(request);
    }));
  }

  void submit(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) override {
    if (auto refused = core::refuse_too_many(request)) return done(*std::move(refused));
    if (auto early = access_.refuse_early(request.deadline, stop)) return done(*std::move(early));
    auto* wake = access_.wake();
    WaiterCounts counts;
    for (const auto& key : request.keys) {
      counts.push_back(wake != nullptr ? wake->count_waiters(key.str()) : std::nullopt);
    }
    done(std::move(counts));
  }

  void submit(WatchRequest request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    auto* wake = access_.wake();
    done(wake != nullptr ? wake->watch(request.key.str(), waiting::Wakes::one) : nullptr);
  }
  /// Locks and records share the file of wake-ups, so each feed reports changes of both.
  /// A grant wakes nothing, so there is no feed of them.
  void submit(FollowLocks request, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    auto* wake = access_.wake();
    done(wake != nullptr && request.what == LockChanges::releases ? wake->follow() : nullptr);
  }

 private:
  template <class T, class Body>
  Result<T> operate(BootTime deadline, std::stop_token stop, const LockAccess::ErrorContext& about,
                    Body body) {
    AfterCommit after;
    auto result = access_.operate<T>(deadline, std::move(stop), about, [&] { return body(after); });
    if (auto* wake = access_.wake(); after.freed && wake != nullptr) wake->wake_one(after.freed->str());
    if (after.warning && access_.log() != nullptr) {
      access_.log()->write(LogLevel::warning, *std::move(after.warning));
    }
    // A failed transaction is rolled back: nothing was done.
    return result ? std::move(result) : Result<T>(result.error().with(Effect::none));
  }

  Database& database() noexcept { return access_.database(); }
  LockTable& table() noexcept { return access_.table(); }
  const Clock& clock() const noexcept { return access_.clock(); }

  static std::optional<core::StoredLease> lease_of(const std::optional<LockRow>& row) {
    if (!row) return std::nullopt;
    return core::StoredLease{.id = row->record.id, .expires_at = std::chrono::milliseconds(row->deadline_ms)};
  }

  void stamp(LockRow& row, std::chrono::milliseconds deadline, Ttl ttl, Durability durability) const {
    row.ttl_ms = ttl.length().count();
    row.deadline_ms = deadline.count();
    row.record.expires_at = clock().wall() + ttl.length();
    row.durable = row.durable || durability == Durability::machine;
  }

  /// What to do when the reserve of fences is low.
  enum class Reserve : std::uint8_t { keep_up, use_up };

  /// Empty if more fences must be reserved first.
  std::optional<AcquireOutcome> try_acquire(const AcquireRequest& request, AfterCommit& after,
                                            Reserve reserve) {
    Database::Change change(database(), request.durability);
    change.check_unmoved();
    const auto view = table().view(request.key, request.id);
    database().check_clock(view.clock);

    const bool id_is_elsewhere = view.of_id && view.of_id->record.key != request.key;
    const auto decision =
        core::decide_acquire(request, lease_of(view.at_key),
                             id_is_elsewhere ? lease_of(view.of_id) : std::nullopt, clock().boot());
    if (const auto* refused = std::get_if<Refused>(&decision)) {
      const auto& holder = view.at_key->record.holder;
      return Refused{.free_in = refused->free_in,
                     .holder = holder ? std::make_shared<const LockHolder>(*holder) : nullptr};
    }
    if (std::holds_alternative<core::IdInUse>(decision)) throw core::id_holds_another_key();
    if (std::holds_alternative<core::GrantAgain>(decision)) {
      return grant_again(change, *view.at_key, request.durability);
    }

    const auto next = next_fence(view.fences);
    if (!next)
      throw Error(next.error().code(),
                  "cannot grant a lock in " + access_.file() + ": " + next.error().message());
    if (next->reserve != FenceReserve::enough && reserve == Reserve::keep_up) return std::nullopt;
    if (next->reserve == FenceReserve::none) return std::nullopt;

    if (view.at_key) table().remove(view.at_key->record.key);
    if (id_is_elsewhere) table().remove(view.of_id->record.key);
    LockRow row{.record = {.key = request.key, .id = request.id, .fence = next->fence}};
    stamp(row, std::get<core::Grant>(decision).expires_at, request.ttl, request.durability);
    row.record.acquired_at = row.record.expires_at - request.ttl.length();
    table().insert(row, request.holder.get());
    table().set_last_fence(next->fence);
    // Each grant adds one row at most, so the expired rows of keys that are used once do not accumulate.
    if (next->fence.value() % grants_between_sweeps == 0) {
      table().remove_expired(request.id, clock().boot_ms(), rows_per_sweep);
    }
    change.commit();
    after.warning = core::high_fence_warning(next->fence, request.key);
    return Granted{.fence = row.record.fence, .expires_at = row.record.expires_at, .authority = authority_};
  }

  /// Repeats the first answer. The caller lost it, so the lock may be less durable than requested: the
  /// process that wrote it may have died before its sync.
  Granted grant_again(Database::Change& change, LockRow held, Durability durability) {
    if (durability == Durability::machine) {
      held.durable = true;
      table().restamp(held);
      change.commit();
    }
    return {.fence = held.record.fence, .expires_at = held.record.expires_at, .authority = authority_};
  }

  ReleaseOutcome try_release(const ReleaseRequest& request, AfterCommit& after) {
    Database::Change change(database(), request.durability);
    if (is_gone(change.place(), after)) return Absence::not_found;
    change.check_unmoved();
    const auto row = find(request.lock);
    const auto decision = core::decide_release(request, lease_of(row), clock().boot());
    const auto* absent = std::get_if<core::NotHeld>(&decision);
    if (absent == nullptr || absent->delete_lease) {
      table().remove(row->record.key);
      change.commit();
    }
    if (absent != nullptr) return absent->why;
    after.freed = row->record.key;
    return Released{};
  }

  ExtendOutcome try_extend(const ExtendRequest& request, AfterCommit& after) {
    Database::Change change(database(), request.durability);
    if (is_gone(change.place(), after)) return Absence::not_found;
    change.check_unmoved();
    auto row = find(request.lock);
    const auto decision = core::decide_extend(request, lease_of(row), clock().boot());
    if (const auto* absent = std::get_if<core::NotHeld>(&decision)) {
      if (absent->delete_lease) {
        table().remove(row->record.key);
        change.commit();
      }
      return absent->why;
    }
    stamp(*row, std::get<core::Extend>(decision).expires_at, request.ttl, request.durability);
    table().restamp(*row);
    if (request.new_holder) table().set_holder(row->record.key, request.new_holder->get());
    change.commit();
    return Extended{.expires_at = row->record.expires_at};
  }

  /// Whether the open file is no longer the one at its path. Then its locks exclude no new process, and are
  /// lost for their holders: waiting for the file to come back would only delay the notification.
  bool is_gone(Database::Place place, AfterCommit& after) {
    if (place != Database::Place::another) return false;
    after.warning = database().moved().message();
    return true;
  }

  /// The row of a key or of an id, live or expired.
  template <class What>
  std::optional<LockRow> find(const What& what) {
    auto found = table().find(what);
    database().check_clock(found.clock);
    return std::move(found.row);
  }
  std::optional<LockRow> find(const LockRef& lock) { return lock.key ? find(*lock.key) : find(lock.id); }

  LockPage read(const ListRequest& request) {
    const Database::View view(database(), Database::Reads::several);
    LockPage page;
    for (const auto& key : request.only) {
      auto row = find(key);
      if (core::is_held(lease_of(row), clock().boot())) page.locks.push_back(std::move(row->record));
    }
    return page;
  }

  LockPage page(const ListRequest& request) {
    if (!request.cursor.empty()) {
      const auto key = LockKey::parse(request.cursor);
      if (!key || key->str() != request.cursor) {
        throw Error(ErrorCode::InvalidArgument, "the cursor is not from this list; start without a cursor");
      }
    }
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_list_limit);
    const Database::View view(database(), Database::Reads::several);
    database().check_clock(table().clock());
    LockPage page{.locks = table().page(request.cursor, clock().boot_ms(), limit + 1), .cursor = {}};
    if (page.locks.size() > limit) {
      page.locks.pop_back();
      page.cursor = page.locks.back().key.str();
    }
    return page;
  }

  LockAccess access_;
  const SharedText authority_;
};

}  // namespace

Result<std::shared_ptr<LockBackend>> open_lock_backend(const std::filesystem::path& file,
                                                       const SqliteOptions& options, std::shared_ptr<Log> log,
                                                       Clock clock) {
  return open_backend<SqliteLockBackend, LockBackend>(file, options, std::move(log), std::move(clock));
}

}  // namespace holdfast::sqlite

namespace holdfast {

Result<std::shared_ptr<LockBackend>> make_sqlite_lock_backend(const std::filesystem::path& file,
                                                              const SqliteOptions& options,
                                                              std::shared_ptr<Log> log) {
  auto clock = sqlite::machine_clock();
  if (!clock) return clock.error();
  return sqlite::open_lock_backend(file, options, std::move(log), *std::move(clock));
}

}  // namespace holdfast
