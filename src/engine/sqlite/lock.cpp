#include "engine/sqlite/lock.hpp"

#include <algorithm>

#include "core/fence_limits.hpp"
#include "core/liveness.hpp"
#include "engine/sqlite/access.hpp"
#include "engine/sqlite/lock_table.hpp"

namespace holdfast::sqlite {
namespace {

using LockAccess = Access<LockTable>;

/// Each so many grants one looks at that many other rows, to delete those that are dead: two for each grant,
/// at a quarter of what looking at two each time would cost.
constexpr std::uint64_t grants_between_sweeps = 8;
constexpr std::size_t rows_per_sweep = 16;
/// Pauses as after this many attempts.
constexpr int seldom = 1000;

LockAccess::Subject subject(const LockRef& lock) {
  return {.key = lock.key ? lock.key->str() : std::string(), .id = std::string(lock.id.str())};
}

/// What is to be done once the transaction and this thread's turn are over.
struct Aftermath {
  std::optional<LockKey> freed;
  std::optional<std::string> warning;
};

class SqliteLockBackend final : public LockBackend {
 public:
  SqliteLockBackend(const std::filesystem::path& file, const SqliteOptions& options, std::shared_ptr<Log> log,
                    Clock clock, const Patience& patience)
      : access_(file, options, std::move(log), std::move(clock), patience),
        authority_(access_.database().authority()) {}

  Capabilities capabilities() const noexcept override { return sqlite_capabilities; }
  std::string authority() const override { return authority_; }

  void acquire(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    const LockAccess::Subject about{.key = request.key.str(), .id = std::string(request.id.str())};
    done(operate<AcquireOutcome>(request.deadline, std::move(stop), about, [&](Aftermath& after) {
      auto outcome = try_acquire(request, after, Reserve::keep_up);
      while (!outcome) {
        reserve_fences();
        outcome = try_acquire(request, after, Reserve::use_up);
        // The log could not be copied: another copies it at this moment, or reads the file for long.
        if (!outcome) database().connection().pause(seldom);
      }
      return *std::move(outcome);
    }));
  }

  void release(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    done(operate<ReleaseOutcome>(request.deadline, std::move(stop), subject(request.lock),
                                 [&](Aftermath& after) { return try_release(request, after); }));
  }

  void extend(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    done(operate<ExtendOutcome>(request.deadline, std::move(stop), subject(request.lock),
                                [&](Aftermath& after) { return try_extend(request, after); }));
  }

  void is_locked(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    done(operate<bool>(request.deadline, std::move(stop), {.key = request.key.str(), .id = {}},
                       [&](Aftermath&) {
                         const Database::View view(database());
                         return find_live(request.key).has_value();
                       }));
  }

  void lookup(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    LockAccess::Subject about;
    if (const auto* key = std::get_if<LockKey>(&request.what)) about.key = key->str();
    if (const auto* id = std::get_if<LockId>(&request.what)) about.id = id->str();
    done(operate<std::optional<LockRecord>>(
        request.deadline, std::move(stop), about, [&](Aftermath&) -> std::optional<LockRecord> {
          const Database::View view(database());
          auto row = std::visit([&](const auto& what) { return find_live(what); }, request.what);
          if (!row) return std::nullopt;
          return std::move(row->record);
        }));
  }

  void list(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    done(operate<LockPage>(request.deadline, std::move(stop), {}, [&](Aftermath&) { return page(request); }));
  }

  std::unique_ptr<Watch> watch(const LockKey& key, BootTime, std::stop_token) override {
    auto* wake = access_.wake();
    return wake != nullptr ? wake->watch(key.str(), sys::Wakes::one) : nullptr;
  }

 private:
  template <class T, class Body>
  Result<T> operate(BootTime deadline, std::stop_token stop, const LockAccess::Subject& about, Body body) {
    Aftermath after;
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

  bool is_due(const LockRow& row) const { return core::is_due(row.deadline_ms, clock().boot_ms()); }

  void stamp(LockRow& row, Ttl ttl, Durability durability) const {
    row.ttl_ms = ttl.ms();
    row.deadline_ms = clock().boot_ms() + ttl.ms();
    row.record.expires_at_ms = clock().wall_ms() + ttl.ms();
    row.durable = row.durable || durability == Durability::machine;
  }

  /// What to do when few fences are left in reserve.
  enum class Reserve : std::uint8_t { keep_up, use_up };

  /// Nothing if more fences are to be reserved first.
  std::optional<AcquireOutcome> try_acquire(const AcquireRequest& request, Aftermath& after,
                                            Reserve reserve) {
    Database::Change change(database(), request.durability);
    database().check_unmoved();
    const auto view = table().view(request.key, request.id);
    database().check_clock(view.clock);

    if (view.at_key && !is_due(*view.at_key)) {
      const auto& holder = *view.at_key;
      if (holder.record.id == request.id) return grant_again(change, holder, request.durability);
      const auto left = std::max<std::int64_t>(holder.deadline_ms - clock().boot_ms(), 0);
      return Refused{.free_in = std::chrono::milliseconds(left)};
    }
    const bool id_is_elsewhere = view.of_id && view.of_id->record.key != request.key;
    if (id_is_elsewhere && !is_due(*view.of_id)) {
      throw Error(ErrorCode::InvalidArgument, "this lock id holds another key; use a new id for each lock");
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
    stamp(row, request.ttl, request.durability);
    row.record.acquired_at_ms = row.record.expires_at_ms - row.ttl_ms;
    table().insert(row);
    table().set_last_fence(next->fence);
    // Each grant adds one row at most, so the dead ones of holders that came but once never pile up.
    if (next->fence.value() % grants_between_sweeps == 0) {
      table().remove_dead(request.id, clock().boot_ms(), rows_per_sweep);
    }
    change.commit();
    after.warning = core::high_fence_warning(next->fence, request.key);
    return Granted{
        .fence = row.record.fence, .expires_at_ms = row.record.expires_at_ms, .authority = authority_};
  }

  /// A fence may be granted once the reserve it comes from is in the database file itself, on disk.
  void reserve_fences() {
    std::uint64_t reserved = 0;
    {
      Database::Change change(database(), Durability::machine);
      database().check_unmoved();
      database().check_clock(table().clock());
      reserved = with_full_reserve(table().fences()).reserved;
      table().set_reserved(reserved);
      change.commit();
    }
    if (!database().copy_log()) return;
    Database::Change change(database(), Durability::process);
    database().check_clock(table().clock());
    table().set_in_file(std::max(reserved, table().fences().in_file));
    change.commit();
  }

  /// The first answer again. The caller lost it, and with it the certainty that the lock is as durable as
  /// asked: the process that wrote it may have died before it synced.
  Granted grant_again(Database::Change& change, LockRow held, Durability durability) {
    if (durability == Durability::machine) {
      held.durable = true;
      table().restamp(held);
      change.commit();
    }
    return {.fence = held.record.fence, .expires_at_ms = held.record.expires_at_ms, .authority = authority_};
  }

  ReleaseOutcome try_release(const ReleaseRequest& request, Aftermath& after) {
    Database::Change change(database(), request.durability);
    const auto [row, absence] = find_held(request.lock);
    if (row) {  // an expired one is of no more use to anybody
      table().remove(row->record.key);
      change.commit();
    }
    if (absence) return *absence;
    if (is_gone(database().place_of_database(), after)) return Absence::not_found;
    after.freed = row->record.key;
    return Released{};
  }

  ExtendOutcome try_extend(const ExtendRequest& request, Aftermath& after) {
    Database::Change change(database(), request.durability);
    const auto place = database().place();
    if (is_gone(place, after)) return Absence::not_found;
    if (place != Database::Place::same) throw database().moved();
    auto [row, absence] = find_held(request.lock);
    if (absence) {
      if (row) {
        table().remove(row->record.key);
        change.commit();
      }
      return *absence;
    }
    stamp(*row, request.ttl, request.durability);
    table().restamp(*row);
    change.commit();
    return Extended{.expires_at_ms = row->record.expires_at_ms};
  }

  /// Whether the open file is no longer the one under its name. Then its locks exclude nobody who comes now,
  /// and for their holders they are gone: waiting for the file to come back would only put off saying so.
  bool is_gone(Database::Place place, Aftermath& after) {
    if (place != Database::Place::another) return false;
    after.warning = database().moved().message();
    return true;
  }

  /// The row of this id, and why it does not hold the lock (any more): with `expired` there is a row.
  struct Held {
    std::optional<LockRow> row;
    std::optional<Absence> absence;
  };
  Held find_held(const LockRef& lock) {
    auto found = lock.key ? table().find(*lock.key) : table().find(lock.id);
    database().check_clock(found.clock);
    if (!found.row) return {.row = {}, .absence = Absence::not_found};
    const bool due = is_due(*found.row);
    if (found.row->record.id != lock.id) {
      return {.row = {}, .absence = due ? Absence::not_found : Absence::other_owner};
    }
    return {.row = std::move(found.row), .absence = due ? std::optional(Absence::expired) : std::nullopt};
  }

  template <class What>
  std::optional<LockRow> find_live(const What& what) {
    auto found = table().find(what);
    database().check_clock(found.clock);
    if (found.row && is_due(*found.row)) return std::nullopt;
    return std::move(found.row);
  }

  LockPage page(const ListRequest& request) {
    if (!request.cursor.empty()) {
      const auto key = LockKey::parse(request.cursor);
      if (!key || key->str() != request.cursor) {
        throw Error(ErrorCode::InvalidArgument, "the cursor is not one of this listing; start without one");
      }
    }
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_list_limit);
    const Database::View view(database());
    database().check_clock(table().clock());
    LockPage page{.locks = table().page(request.cursor, clock().boot_ms(), limit + 1), .cursor = {}};
    if (page.locks.size() > limit) {
      page.locks.pop_back();
      page.cursor = page.locks.back().key.str();
    }
    return page;
  }

  LockAccess access_;
  const std::string authority_;
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
