#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/queue_step_decisions.hpp"
#include "engine/sqlite/fences.hpp"
#include "engine/sqlite/queue_table.hpp"
#include "engine/sqlite/storage_table.hpp"
#include "waiting/process_marks.hpp"

namespace holdfast::sqlite {

/// What a claim does when the reserve of fences is low.
enum class LowReserve : std::uint8_t { keep_up, use_up };
/// Thrown inside a transaction, which is rolled back: more fences must be reserved first.
struct FencesNeeded {};

/// The queue of one owner, for core::QueueSteps. Requires a transaction.
class SqliteQueue {
 public:
  SqliteQueue(const StorageTable& table, std::string_view owner, core::QueueTime now,
              const std::string& authority)
      : table_(table), queues_(table.queues()), owner_(owner), now_(now), authority_(authority) {}

  /// For claims. `processes` may be null; then `looked_at`, when this queue was last searched for leases of
  /// processes that have ended, may be too.
  void use(FenceSequence fences, LowReserve when_low, waiting::ProcessMarks* processes,
           std::chrono::milliseconds* looked_at) {
    fences_ = fences;
    when_low_ = when_low;
    processes_ = processes;
    looked_at_ = looked_at;
  }
  /// The keys of the records that were changed: their watchers are to be woken.
  [[nodiscard]] const std::vector<RecordKey>& changed() const noexcept { return changed_; }
  [[nodiscard]] bool has_changed_file() const noexcept { return has_changed_file_; }
  /// Stores the last fence that was granted; call it before the commit.
  void finish() const {
    if (last_) queues_.set_last_fence(*last_);
  }

  // The counts of the row spare the questions whose answer they are.
  [[nodiscard]] core::QueueHead head() const { return row().head; }
  [[nodiscard]] std::optional<std::string> first_ready() const {
    return row().head.ready > 0 ? queues_.first_ready(owner_) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::string> first_expired(std::chrono::milliseconds now) const {
    return row().head.leased > 0 ? queues_.first_expired(owner_, now) : std::nullopt;
  }
  [[nodiscard]] bool is_time_to_look_for_abandoned() const noexcept {
    constexpr std::chrono::seconds between_looks(1);
    return processes_ != nullptr && now_.leases >= *looked_at_ + between_looks;
  }
  /// Only of the first thousand leases: a claim is bounded, and the others expire by time.
  [[nodiscard]] std::optional<std::string> first_abandoned() const {
    constexpr std::size_t most_leases = 1000;
    if (processes_ == nullptr) return std::nullopt;
    *looked_at_ = now_.leases;
    if (row().head.leased == 0) return std::nullopt;
    std::unordered_set<std::uint64_t> living;
    for (auto& lease : queues_.marked_leases(owner_, most_leases)) {
      if (living.contains(lease.mark)) continue;
      if (!processes_->lives(lease.mark)) return std::move(lease.task);
      living.insert(lease.mark);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::string> first_due(WallTime now) const {
    return row().delayed > 0 ? queues_.first_due(owner_, now) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_deadline() const {
    return row().head.leased > 0 ? queues_.next_deadline(owner_) : std::nullopt;
  }
  [[nodiscard]] std::optional<WallTime> next_due() const {
    return row().delayed > 0 ? queues_.next_due(owner_) : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> exhausted(std::size_t most) const {
    return row().exhausted > 0 ? queues_.exhausted(owner_, most) : std::vector<std::string>();
  }

  [[nodiscard]] std::size_t leased_of(std::string_view limit_key, std::size_t most) const {
    return queues_.leased_of(owner_, limit_key, most);
  }
  [[nodiscard]] std::optional<std::string> first_parked(std::string_view limit_key) const {
    return row().parked > 0 ? queues_.first_parked(owner_, limit_key) : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> dead(std::size_t most) const { return queues_.dead(owner_, most); }

  [[nodiscard]] std::optional<core::RecordEntry> find(std::string_view task) const {
    return table_.find(key_of(task)).row;
  }
  [[nodiscard]] std::optional<core::RecordEntry> find_head(std::string_view task) const {
    const auto key = RecordKey::of(owner_, task);
    return key ? table_.find_head(*key).row : std::nullopt;
  }

  /// The row stays until it is swept: a wall clock that is wrong for a moment must not destroy it.
  void forget(const std::string& task) {
    const auto there = find_head(task);
    if (!there || !there->queue) return;
    const auto& entry = *there->queue;
    store(key_of(task), core::leave_queue(entry));
    if (!core::has_limit_key(entry) || !core::makes_room(entry.state.place, QueuePlace::finished)) return;
    const auto parked = first_parked(entry.state.terms.limit_key);
    if (parked) set(*parked, core::moved_to(QueuePlace::ready, *find_head(*parked)->queue));
  }
  void remove(const std::string& task) {
    changed_.push_back(key_of(task));
    table_.remove(changed_.back());
    has_changed_file_ = true;
    row_.reset();
  }
  /// For a record that was just inserted.
  void insert(const RecordKey& key, const core::QueueEntry& entry) {
    queues_.insert(key, entry);
    row_.reset();
  }
  /// Rows were inserted or deleted past this object.
  void changed_elsewhere() noexcept { row_.reset(); }
  void set(const std::string& task, const core::QueueEntry& entry) {
    changed_.push_back(key_of(task));
    store(changed_.back(), entry);
  }
  void grant(const std::string& task, const core::QueueEntry& entry, const ClaimTerms& terms) {
    changed_.push_back(key_of(task));
    const bool is_marked = terms.ends_with_process && processes_ != nullptr;
    store(changed_.back(), entry, is_marked ? processes_->own() : 0);
  }
  void prolong(const std::string& task, const core::QueueEntry& entry) { store(key_of(task), entry); }
  void bind(const std::string& task, const FencingToken& token) {
    table_.set_guard(key_of(task), token);
    has_changed_file_ = true;
  }
  void write(const std::string& task, const core::Update& update, const RecordData& data) {
    table_.update(key_of(task), update, data.text());
    has_changed_file_ = true;
  }
  [[nodiscard]] Result<FencingToken> next_token(const std::string& task) {
    const auto next = next_fence(fences_);
    if (!next) return next.error();
    if (next->reserve == FenceReserve::none) throw FencesNeeded{};
    if (next->reserve == FenceReserve::low && when_low_ == LowReserve::keep_up) throw FencesNeeded{};
    fences_.last = next->fence.value();
    last_ = next->fence;
    return FencingToken{.authority = authority_, .lock_key = key_of(task).str(), .fence = next->fence};
  }
  [[nodiscard]] RecordKey key_of(std::string_view task) const {
    return RecordKey::of(owner_, task).value_or_throw();
  }

  [[nodiscard]] QueueCounts count() const {
    const auto& counts = row();
    return {.ready = counts.head.ready,
            .delayed = counts.delayed,
            .leased = counts.head.leased,
            .expired = queues_.count_expired(owner_, now_.leases),
            .exhausted = counts.exhausted,
            .parked = counts.parked,
            .dead = counts.head.dead,
            .records = table_.count(owner_),
            .paused = counts.head.paused,
            .max_leased = counts.head.max_leased,
            .oldest_ready = queues_.first_ready_since(owner_),
            .next_due = queues_.next_due(owner_)};
  }
  QueueCounts configure(const ConfigureQueue& request) {
    const auto head = row().head;
    auto most = head.max_leased;
    if (request.max_leased) {
      most = *request.max_leased == 0 ? std::nullopt : std::optional(*request.max_leased);
    }
    const bool paused = request.paused.value_or(head.paused);
    if (paused != head.paused || most != head.max_leased) {
      queues_.configure(owner_, paused, most);
      has_changed_file_ = true;
      row_.reset();
    }
    return count();
  }

 private:
  void store(const RecordKey& key, const core::QueueEntry& entry,
             std::optional<std::uint64_t> worker_mark = {}) {
    queues_.update(key, entry, now_.leases, worker_mark);
    has_changed_file_ = true;
    row_.reset();
  }
  /// The queue's row, read again after a change.
  [[nodiscard]] const QueueTable::Row& row() const {
    if (!row_) row_ = queues_.find(owner_);
    return *row_;
  }

  const StorageTable& table_;
  const QueueTable& queues_;
  const std::string_view owner_;
  const core::QueueTime now_;
  const std::string& authority_;
  FenceSequence fences_;
  LowReserve when_low_ = LowReserve::keep_up;
  waiting::ProcessMarks* processes_ = nullptr;
  std::chrono::milliseconds* looked_at_ = nullptr;
  std::optional<Fence> last_;
  std::vector<RecordKey> changed_;
  bool has_changed_file_ = false;
  mutable std::optional<QueueTable::Row> row_;
};

}  // namespace holdfast::sqlite
