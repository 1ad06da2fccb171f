#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lock_decisions.hpp"
#include "core/queue_step_decisions.hpp"
#include "engine/memory/record_table.hpp"

namespace holdfast::memory {

/// The tokens of all claims of one store. Thread-safe.
class ClaimTokens {
 public:
  ClaimTokens(std::string authority, std::uint64_t last_fence)
      : authority_(std::move(authority)), last_fence_(last_fence) {}

  /// The token of the next claim of this record.
  [[nodiscard]] Result<FencingToken> next(const RecordKey& key) {
    const auto fence = core::next_fence(last_fence_.fetch_add(1));
    if (!fence) {
      last_fence_.fetch_sub(1);
      return fence.error();
    }
    return FencingToken{.authority = authority_, .lock_key = key.str(), .fence = *fence};
  }

 private:
  const std::string authority_;
  std::atomic<std::uint64_t> last_fence_;
};

/// The queue of one owner, for core::QueueSteps. Requires the mutex of the owner's shard.
class MemoryQueue {
 public:
  MemoryQueue(RecordTable& table, std::string_view owner, ClaimTokens& tokens, std::chrono::milliseconds now)
      : table_(table), owner_(owner), tokens_(tokens), now_(now) {}

  /// The keys of the records that were changed: their watchers are to be woken.
  [[nodiscard]] const std::vector<std::string>& changed() const noexcept { return changed_; }

  [[nodiscard]] core::QueueHead head() const {
    const auto* order = table_.queue(owner_);
    return order != nullptr ? order->head() : core::QueueHead{};
  }
  [[nodiscard]] std::optional<std::string> first_ready() const {
    return name([](const QueueOrder& order) { return order.first_ready(); });
  }
  [[nodiscard]] std::optional<std::string> first_expired(std::chrono::milliseconds now) const {
    return name([now](const QueueOrder& order) { return order.first_expired(now); });
  }
  /// The store ends with its process.
  [[nodiscard]] static std::optional<std::string> first_abandoned() { return std::nullopt; }
  [[nodiscard]] static bool is_time_to_look_for_abandoned() noexcept { return false; }
  [[nodiscard]] std::optional<std::string> first_due(WallTime now) const {
    return name([now](const QueueOrder& order) { return order.first_due(now); });
  }
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_deadline() const {
    const auto* order = table_.queue(owner_);
    return order != nullptr ? order->next_deadline() : std::nullopt;
  }
  [[nodiscard]] std::optional<WallTime> next_due() const {
    const auto* order = table_.queue(owner_);
    return order != nullptr ? order->next_due() : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> exhausted(std::size_t most) const {
    const auto* order = table_.queue(owner_);
    return order != nullptr ? order->exhausted(most) : std::vector<std::string>{};
  }

  [[nodiscard]] std::size_t leased_of(std::string_view limit_key, std::size_t /*most*/) const {
    const auto* order = table_.queue(owner_);
    return order != nullptr ? order->leased_of(limit_key) : 0;
  }
  [[nodiscard]] std::optional<std::string> first_parked(std::string_view limit_key) const {
    return name([limit_key](const QueueOrder& order) { return order.first_parked(limit_key); });
  }
  [[nodiscard]] std::vector<std::string> dead(std::size_t most) const {
    std::vector<std::string> names;
    if (const auto* order = table_.queue(owner_)) {
      for (const auto& [when, task] : order->dead()) {
        if (names.size() == most) break;
        names.emplace_back(task);
      }
    }
    return names;
  }

  [[nodiscard]] const core::RecordEntry* find(std::string_view task) const {
    return table_.find(owner_, task);
  }
  [[nodiscard]] const core::RecordEntry* find_head(std::string_view task) const { return find(task); }

  void forget(const std::string& task) { table_.erase(owner_, task); }
  void remove(const std::string& task) {
    changed_.push_back(key_of(task).str());
    table_.erase(owner_, task);
  }
  void set(const std::string& task, core::QueueEntry entry) {
    changed_.push_back(key_of(task).str());
    prolong(task, std::move(entry));
  }
  void grant(const std::string& task, core::QueueEntry entry, const ClaimTerms&) {
    set(task, std::move(entry));
  }
  void prolong(const std::string& task, core::QueueEntry entry) {
    table_.set_queue(owner_, task, std::move(entry));
  }
  void bind(const std::string& task, const FencingToken& token) {
    table_.find(owner_, task)->record.bound_to = token;
  }
  void write(const std::string& task, core::Update update, RecordData& data) {
    table_.set_expiry(key_of(task), update.expires_at);
    auto& record = table_.find(owner_, task)->record;
    record.version = update.version;
    record.bound_to = std::move(update.bound_to);
    record.data = std::move(data).text();
  }
  [[nodiscard]] Result<FencingToken> next_token(const std::string& task) {
    return tokens_.next(key_of(task));
  }
  [[nodiscard]] RecordKey key_of(std::string_view task) const { return *RecordKey::of(owner_, task); }

  [[nodiscard]] QueueCounts count() const {
    const auto* order = table_.queue(owner_);
    auto counts = order != nullptr ? order->counts() : QueueCounts{};
    counts.records = table_.size_of(owner_);
    if (order != nullptr) counts.expired = order->count_expired(now_);
    if (const auto first = first_ready()) counts.oldest_ready = find(*first)->queue->state.due_at;
    return counts;
  }
  QueueCounts configure(const ConfigureQueue& request) {
    table_.configure(owner_, [&](QueueOrder& order) {
      if (request.paused) order.paused = *request.paused;
      if (request.max_leased) {
        order.max_leased = *request.max_leased == 0 ? std::nullopt : std::optional(*request.max_leased);
      }
    });
    return count();
  }

 private:
  template <class First>
  [[nodiscard]] std::optional<std::string> name(First first) const {
    const auto* order = table_.queue(owner_);
    const std::optional<std::string_view> found = order != nullptr ? first(*order) : std::nullopt;
    return found ? std::optional(std::string(*found)) : std::nullopt;
  }

  RecordTable& table_;
  const std::string_view owner_;
  ClaimTokens& tokens_;
  const std::chrono::milliseconds now_;  ///< on the clock of the leases
  std::vector<std::string> changed_;
};

}  // namespace holdfast::memory
