#include <algorithm>
#include <array>
#include <holdfast/memory.hpp>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/digest.hpp"
#include "core/output_decisions.hpp"
#include "core/queue_decisions.hpp"
#include "core/record_decisions.hpp"
#include "core/record_request.hpp"
#include "engine/memory/queue.hpp"
#include "engine/memory/record_table.hpp"
#include "os/clock.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "runtime/operation.hpp"
#include "waiting/wake_table.hpp"

namespace holdfast {
namespace {

using core::RecordEntry;
using memory::ClaimTokens;
using memory::MemoryQueue;
using memory::RecordTable;

std::string random_authority() {
  // 88 random bits in 15 characters: a std::string of that length needs no allocation.
  std::array<unsigned char, 11> bytes{};
  os::random_bytes(bytes);
  return core::base64url(bytes);
}

/// Carries out core's decision about one record.
class RecordChange {
 public:
  RecordChange(RecordTable& table, const RecordKey& key, WallTime now, ClaimTokens& tokens)
      : table_(table),
        key_(key),
        now_(now),
        there_(table.find(key)),
        queue_(table, key.owner(), tokens, now.time_since_epoch()),
        steps_(queue_, {.wall = now, .leases = now.time_since_epoch()}) {}

  /// What the queue offers to workers.
  [[nodiscard]] core::QueueOffer offer() { return steps_.offer(); }
  /// The keys of the queue's other records that were changed.
  [[nodiscard]] const std::vector<std::string>& changed_in_queue() const noexcept { return queue_.changed(); }

  [[nodiscard]] WallTime now() const noexcept { return now_; }
  [[nodiscard]] const RecordEntry* there() const noexcept { return there_; }
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }
  /// For Insert and Update.
  void use(RecordData& data) noexcept { data_ = &data; }
  /// For Insert.
  void enter_queue(const QueueTerms& terms) noexcept { terms_ = &terms; }
  /// For Update.
  void limit_dead(std::optional<std::size_t> most) noexcept { max_dead_ = most; }

  /// The number of the owner's live records: see RecordTable::count. May delete this record, if it has
  /// expired.
  std::size_t count(std::size_t limit) {
    const auto count = table_.count(key_.owner(), limit, now_);
    there_ = table_.find(key_);
    return count;
  }

  Written operator()(core::Insert insert) {
    auto& record = insert.entry.record;
    record.incarnation = os::new_incarnation();
    record.data = std::move(*data_).text();
    if (terms_ != nullptr) {
      auto entry = core::enter_queue(*terms_, now_, table_.next_sequence(key_.owner()));
      core::set_queue(insert.entry, steps_.admitted(std::move(entry)));
    }
    Written written{.version = record.version, .incarnation = record.incarnation};
    table_.insert(key_, std::move(insert.entry), now_);
    is_made_ = true;
    return written;
  }
  Written operator()(core::Update update) {
    table_.set_expiry(key_, update.expires_at);
    auto& record = there_->record;
    record.version = update.version;
    record.bound_to = std::move(update.bound_to);
    record.data = std::move(*data_).text();
    Written written{.version = record.version, .incarnation = record.incarnation};
    if (const auto entry = there_->queue; update.leaves_queue && entry) {
      steps_.leave(std::string(key_.task()), *entry, max_dead_);
    }
    is_made_ = true;
    return written;
  }
  StoredRecord operator()(core::SetGuard set) {
    there_->record.bound_to = std::move(set.bound_to);
    is_made_ = true;
    return there_->record;
  }
  Removed operator()(core::Remove) {
    table_.erase(key_);
    is_made_ = true;
    return {};
  }
  StoredRecord operator()(core::Unchanged) const { return there_->record; }
  AlreadyThere operator()(core::Existing) const { return {there_->record}; }

 private:
  RecordTable& table_;
  const RecordKey& key_;
  const WallTime now_;
  RecordEntry* there_;
  MemoryQueue queue_;
  core::QueueSteps<MemoryQueue> steps_;
  RecordData* data_ = nullptr;
  const QueueTerms* terms_ = nullptr;
  std::optional<std::size_t> max_dead_;
  bool is_made_ = false;
};

/// An owner's records are all in one shard, so that one mutex guards a quota and a page.
class MemoryStorageBackend final : public StorageBackend {
 public:
  explicit MemoryStorageBackend(const MemoryOptions& options)
      : options_(options), tokens_(random_authority(), options.last_fence) {}

  ~MemoryStorageBackend() override {
    // In a forked child, a thread of the parent may have been changing this: leak it untouched.
    if (!process_.is_current()) static_cast<void>(shards_.release());
  }

  [[nodiscard]] std::string_view name() const noexcept override { return memory_capabilities.backend; }
  [[nodiscard]] bool blocks() const noexcept override { return memory_capabilities.blocks; }

  [[nodiscard]] WallTime now() const override {
    return options_.clock != nullptr ? options_.clock(options_.clock_context) : clock_.now();
  }

  void submit(GetRecord request, std::stop_token stop, Done<std::optional<StoredRecord>> done) override {
    done(operate<std::optional<StoredRecord>>(
        request, stop, [](RecordChange& change) { return core::decide_get(change.there(), change.now()); }));
  }

  void submit(CreateRecord request, std::stop_token stop, Done<CreateOutcome> done) override {
    if (auto refused = core::refuse_create(request)) return done(*std::move(refused));
    done(operate<CreateOutcome>(request, stop, [&](RecordChange& change) {
      if (request.queue) change.enter_queue(*request.queue);
      const bool counts = core::needs_count(request, change.there(), change.now());
      const auto records = counts ? change.count(*request.quota) : 0;
      return core::decide_create(request, change.there(), records, change.now());
    }));
  }

  void submit(PutRecord request, std::stop_token stop, Done<PutOutcome> done) override {
    done(operate<PutOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_put(request, change.there(), change.now());
    }));
  }

  void submit(RemoveRecord request, std::stop_token stop, Done<RemoveOutcome> done) override {
    done(operate<RemoveOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_remove(request, change.there(), change.now());
    }));
  }

  void submit(BindRecord request, std::stop_token stop, Done<BindOutcome> done) override {
    done(operate<BindOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_bind(request, change.there(), change.now());
    }));
  }

  void submit(RebindRecord request, std::stop_token stop, Done<RebindOutcome> done) override {
    done(operate<RebindOutcome>(request, stop, [&](RecordChange& change) {
      return core::decide_rebind(request, change.there(), change.now());
    }));
  }

  void submit(ListRecords request, std::stop_token stop, Done<RecordPage> done) override {
    done([&]() -> Result<RecordPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto owner = core::listed_owner(request.prefix);
      if (!owner) return owner.error();
      auto& shard = shard_of(*owner);
      const std::lock_guard lock(shard.mutex);
      return shard.records.page(*owner, request, now());
    }());
  }

  /// Sorted by shard, then by name: a page visits no more owners than it shows, and its last owner determines
  /// where the next page begins.
  void submit(ListOwners request, std::stop_token stop, Done<OwnerPage> done) override {
    done([&]() -> Result<OwnerPage> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      auto after = core::owner_before(request.cursor);
      if (!after) return after.error();
      const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
      OwnerPage page;
      for (auto at = *after ? shard_number(**after) : 0; at < shards_->size(); ++at) {
        auto& shard = (*shards_)[at];
        const std::lock_guard lock(shard.mutex);
        if (shard.records.add_owners(std::exchange(*after, std::nullopt), limit, page)) {
          page.cursor = core::cursor_behind(page.owners.back());
          break;
        }
      }
      return page;
    }());
  }

  void submit(CleanupRecords request, std::stop_token stop, Done<std::size_t> done) override {
    done([&]() -> Result<std::size_t> {
      if (auto refused = refuse_early(request.deadline, stop)) return *refused;
      std::size_t removed = 0;
      for (auto& shard : *shards_) {
        const std::lock_guard lock(shard.mutex);
        removed += shard.records.remove_expired(now());
      }
      return removed;
    }());
  }

  void submit(ClaimNext request, std::stop_token stop, Done<ClaimedRecords> done) override {
    done(work(request, request.owner, stop,
              [&](MemoryQueue&, Steps& steps) { return steps.claim_next(request.terms, request.searched); }));
  }
  void submit(ClaimRecord request, std::stop_token stop, Done<ClaimOutcome> done) override {
    done(work(request, request.key.owner(), stop,
              [&](MemoryQueue&, Steps& steps) { return steps.claim(request); }));
  }
  void submit(RenewLeases request, std::stop_token stop, Done<std::vector<RenewedLease>> done) override {
    done(
        work(request, request.owner, stop, [&](MemoryQueue&, Steps& steps) { return steps.renew(request); }));
  }
  void submit(EndLease request, std::stop_token stop, Done<EndedLease> done) override {
    done(work(request, request.key.owner(), stop,
              [&](MemoryQueue&, Steps& steps) { return steps.end(request); }));
  }
  void submit(CountQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    done(work(request, request.owner, stop, [](MemoryQueue& queue, Steps&) { return queue.count(); }));
  }
  void submit(ConfigureQueue request, std::stop_token stop, Done<QueueCounts> done) override {
    done(work(request, request.owner, stop,
              [&](MemoryQueue& queue, Steps&) { return queue.configure(request); }));
  }

  void submit(AppendOutput request, std::stop_token stop, Done<AppendOutcome> done) override {
    if (auto refused = core::refuse_arguments(request)) {
      done(refused->about(request.key.str(), {}));
      return;
    }
    done(beside_record<AppendOutcome>(
        request, stop, [&](RecordTable& table, RecordEntry* there) -> AppendOutcome {
          const auto* kept = table.find_output(request.key);
          auto decision = core::decide_append(
              request, there, kept != nullptr ? kept->runs : std::vector<core::StoredRun>(), now());
          return core::carry_out<AppendOutcome>(std::move(decision), [&](core::OutputChange change) {
            if (change.bound_to) there->record.bound_to = std::move(change.bound_to);
            return table.output(request.key).apply(std::move(change));
          });
        }));
  }
  void submit(ReadOutput request, std::stop_token stop, Done<std::optional<KeptOutput>> done) override {
    using Kept = std::optional<KeptOutput>;
    done(beside_record<Kept>(request, stop, [&](RecordTable& table, const RecordEntry* there) -> Kept {
      if (!core::is_present(there, now()) || !core::is_meant(there->record, request.incarnation)) {
        return std::nullopt;
      }
      const auto* kept = table.find_output(request.key);
      if (kept == nullptr) return KeptOutput{};
      return core::read_output(request, kept->runs,
                               [&](std::uint64_t run, std::size_t stream, std::uint64_t chunk) {
                                 return std::string_view(kept->chunks.at({run, stream, chunk}));
                               });
    }));
  }

  /// An owner has no colon, so this is the name of no record.
  void submit(WatchQueue request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    done(wakes_->watch(request.owner, waiting::Wakes::one));
  }

  void submit(WatchRecord request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    done(wakes_->watch(request.key.str(), waiting::Wakes::all));
  }
  void submit(FollowRecords, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    done(wakes_->follow());
  }

 private:
  struct Shard {
    std::mutex mutex;
    RecordTable records;
  };
  using Shards = std::array<Shard, 64>;
  using Steps = core::QueueSteps<MemoryQueue>;

  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] std::size_t shard_number(std::string_view owner) const {
    return hash_(owner) % shards_->size();
  }
  Shard& shard_of(std::string_view owner) { return (*shards_)[shard_number(owner)]; }

  /// Runs one operation on a record, under the mutex of its shard, and wakes the record's watchers if it was
  /// changed. `decide` returns a decision of core.
  template <class Outcome, class Request, class Decide>
  Result<Outcome> operate(Request& request, const std::stop_token& stop, Decide decide) {
    if (auto refused = refuse_early(request.deadline, stop)) return refused->about(request.key.str(), {});
    bool changed = false, wakes_worker = false;
    std::vector<std::string> changed_in_queue;
    auto result = [&]() -> Result<Outcome> {
      try {
        auto& shard = shard_of(request.key.owner());
        const std::lock_guard lock(shard.mutex);
        RecordChange change(shard.records, request.key, now(), tokens_);
        if constexpr (requires { request.data; }) change.use(request.data);
        if constexpr (requires { request.max_dead; }) change.limit_dead(request.max_dead);
        bool in_queue = change.there() != nullptr && change.there()->queue != nullptr;
        if constexpr (requires { request.queue; }) in_queue = in_queue || request.queue;
        const auto before = in_queue ? change.offer() : core::QueueOffer{};
        auto outcome = core::carry_out<Outcome>(decide(change), change);
        changed = change.is_made();
        if (in_queue) wakes_worker = core::wakes_worker(before, change.offer());
        changed_in_queue = change.changed_in_queue();
        return outcome;
      } catch (const Error& error) {  // no random bytes for an incarnation
        return error.about(request.key.str(), {});
      }
    }();
    if (changed) wakes_->wake_all(request.key.str());
    for (const auto& key : changed_in_queue) wakes_->wake_all(key);
    if (wakes_worker) wakes_->wake_one(request.key.owner());
    return result;
  }

  /// Runs an operation on what is kept beside a record, under the mutex of its shard. Wakes no watcher: the
  /// record does not change.
  template <class Outcome, class Request, class Body>
  Result<Outcome> beside_record(const Request& request, const std::stop_token& stop, Body body) {
    if (auto refused = refuse_early(request.deadline, stop)) return refused->about(request.key.str(), {});
    auto& shard = shard_of(request.key.owner());
    const std::lock_guard lock(shard.mutex);
    return body(shard.records, shard.records.find(request.key));
  }

  /// Runs one operation on a queue, under the mutex of its shard, and wakes the watchers of the records that
  /// it changed, and a worker if there is a reason.
  template <class Request, class Body>
  Result<typename Request::Outcome> work(const Request& request, std::string_view owner,
                                         const std::stop_token& stop, Body body) {
    const auto subject = request.subject().key;
    if (auto refused = core::refuse_arguments(request)) return refused->about(std::string(subject), {});
    if (auto refused = refuse_early(request.deadline, stop)) return refused->about(std::string(subject), {});
    bool wakes_worker = false;
    std::vector<std::string> changed;
    auto result = [&]() -> Result<typename Request::Outcome> {
      auto& shard = shard_of(owner);
      const std::lock_guard lock(shard.mutex);
      const auto time = now();
      MemoryQueue queue(shard.records, owner, tokens_, time.time_since_epoch());
      Steps steps(queue, {.wall = time, .leases = time.time_since_epoch()});
      const auto before = steps.offer();
      auto outcome = Result<typename Request::Outcome>(body(queue, steps));
      changed = queue.changed();
      wakes_worker = core::wakes_worker(before, steps.offer());
      return outcome;
    }();
    for (const auto& key : changed) wakes_->wake_all(key);
    // A claim is itself the attention that a delay or a lease that ended needs.
    constexpr bool claims = std::is_same_v<Request, ClaimNext> || std::is_same_v<Request, ClaimRecord>;
    if (wakes_worker && !claims) wakes_->wake_one(owner);
    return result;
  }

  const MemoryOptions options_;
  const os::ProcessIdentity process_;
  const os::WallClock clock_;
  const os::TextHash hash_;
  ClaimTokens tokens_;
  std::unique_ptr<Shards> shards_ = std::make_unique<Shards>();
  const std::shared_ptr<waiting::WakeTable> wakes_ = waiting::WakeTable::in_process();
};

}  // namespace

std::shared_ptr<StorageBackend> make_memory_storage_backend(const MemoryOptions& options) {
  return std::make_shared<MemoryStorageBackend>(options);
}

}  // namespace holdfast
