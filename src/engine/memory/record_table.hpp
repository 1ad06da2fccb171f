#pragma once

#include <algorithm>
#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/liveness.hpp"
#include "core/output_decisions.hpp"
#include "core/queue_decisions.hpp"
#include "core/record_decisions.hpp"
#include "engine/memory/queue_order.hpp"
#include "os/random.hpp"

namespace holdfast::memory {

/// The output that is kept beside a record.
struct RecordOutput {
  std::vector<core::StoredRun> runs;  ///< oldest first
  /// By run, stream and number.
  std::map<std::tuple<std::uint64_t, std::size_t, std::uint64_t>, std::string> chunks;

  OutputRun apply(core::OutputChange change) {
    std::erase_if(runs, [&](const core::StoredRun& run) { return run.run.number <= change.drop_runs; });
    chunks.erase(chunks.begin(), chunks.lower_bound({change.drop_runs + 1, 0, 0}));
    const auto number = change.run.run.number;
    if (runs.empty() || runs.back().run.number != number) runs.emplace_back();
    runs.back() = std::move(change.run);
    for (std::size_t stream = 0; stream < output_streams; ++stream) {
      const auto& streams = change.streams[stream];
      if (streams.drop_from < streams.drop_to) {
        chunks.erase(chunks.lower_bound({number, stream, streams.drop_from}),
                     chunks.lower_bound({number, stream, streams.drop_to}));
      }
      for (const auto& write : streams.writes) {
        auto& chunk = chunks[{number, stream, write.chunk}];
        if (!write.appends) chunk.clear();
        chunk += write.bytes;
      }
    }
    return runs.back().run;
  }
};

/// Records of some owners. Not thread-safe. The names in its indexes are views of the keys of its maps, whose
/// nodes do not move.
class RecordTable {
 public:
  /// The record, live or expired; null if there is none.
  core::RecordEntry* find(std::string_view owner_name, std::string_view task) {
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return nullptr;
    const auto at = owner->second.records.find(task);
    return at == owner->second.records.end() ? nullptr : &at->second;
  }
  core::RecordEntry* find(const RecordKey& key) { return find(key.owner(), key.task()); }

  /// The number of this owner's live records. A result below `limit` may include expired ones: they are
  /// deleted, oldest expiry first, only if the limit would be reached. So the cost does not depend on the
  /// live ones.
  std::size_t count(std::string_view owner, std::size_t limit, WallTime now) {
    if (size_of(owner) >= limit) remove_expired(now);
    return size_of(owner);
  }

  /// Replaces the key's record, if there is one.
  void insert(const RecordKey& key, core::RecordEntry entry, WallTime now) {
    sweep_if_grown(now);
    erase(key);
    const auto owner = owners_.try_emplace(std::string(key.owner())).first;
    const auto at = owner->second.records.emplace(std::string(key.task()), std::move(entry)).first;
    owner->second.order.emplace(at->second.created_at, at->first);
    if (at->second.expires_at) expiries_.emplace(*at->second.expires_at, owner->first, at->first);
    if (at->second.queue) queues_[owner->first].add(*at->second.queue, at->first);
    ++size_;
  }

  /// Requires that the record is stored.
  [[nodiscard]] RecordOutput& output(const RecordKey& key) {
    return owners_.find(key.owner())->second.outputs[std::string(key.task())];
  }
  /// Null if none was kept.
  [[nodiscard]] const RecordOutput* find_output(const RecordKey& key) const {
    const auto owner = owners_.find(key.owner());
    if (owner == owners_.end()) return nullptr;
    const auto at = owner->second.outputs.find(key.task());
    return at == owner->second.outputs.end() ? nullptr : &at->second;
  }

  /// The order of the owner's queue; null if it has neither records nor settings.
  [[nodiscard]] QueueOrder* queue(std::string_view owner) {
    const auto at = queues_.find(owner);
    return at == queues_.end() ? nullptr : &at->second;
  }
  /// Changes the settings of the owner's queue, and drops it if they are the default ones and it is empty.
  template <class Change>
  void configure(std::string_view owner, Change change) {
    const auto at = queues_.try_emplace(std::string(owner)).first;
    change(at->second);
    drop_unused(at);
  }
  /// The next sequence number of the owner's queue.
  [[nodiscard]] std::uint64_t next_sequence(std::string_view owner) {
    const auto* order = queue(owner);
    return order != nullptr ? order->next_sequence() : 1;
  }

  /// Requires that the record is stored and in a queue.
  void set_queue(std::string_view owner_name, std::string_view task, core::QueueEntry entry) {
    const auto at = owners_.find(owner_name)->second.records.find(task);
    auto order = queues_.find(owner_name);
    if (order == queues_.end()) order = queues_.try_emplace(std::string(owner_name)).first;
    order->second.remove(*at->second.queue, at->first);
    core::set_queue(at->second, std::move(entry));
    order->second.add(*at->second.queue, at->first);
    drop_unused(order);
  }

  [[nodiscard]] std::size_t size_of(std::string_view owner) const {
    const auto at = owners_.find(owner);
    return at == owners_.end() ? 0 : at->second.records.size();
  }

  /// Requires that the record is stored. Its position in the list stays.
  void set_expiry(const RecordKey& key, std::optional<WallTime> expires_at) {
    const auto owner = owners_.find(key.owner());
    const auto at = owner->second.records.find(key.task());
    if (at->second.expires_at == expires_at) return;
    unindex_expiry(owner->first, at->first, at->second);
    at->second.expires_at = expires_at;
    if (expires_at) expiries_.emplace(*expires_at, owner->first, at->first);
  }

  void erase(const RecordKey& key) { erase(key.owner(), key.task()); }
  void erase(std::string_view owner_name, std::string_view task) {
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return;
    const auto at = owner->second.records.find(task);
    if (at == owner->second.records.end()) return;
    unindex_expiry(owner->first, at->first, at->second);
    if (const auto entry = at->second.queue) {
      if (const auto order = queues_.find(owner_name); order != queues_.end()) {
        order->second.remove(*entry, at->first);
        release_parked(owner->first, order->second, *entry);
        drop_unused(order);
      }
    }
    owner->second.order.erase({at->second.created_at, at->first});
    if (const auto output = owner->second.outputs.find(task); output != owner->second.outputs.end()) {
      owner->second.outputs.erase(output);
    }
    owner->second.records.erase(at);
    if (owner->second.records.empty()) owners_.erase(owner);
    --size_;
  }

  std::size_t remove_expired(WallTime now) {
    std::size_t removed = 0;
    while (!expiries_.empty() && core::is_due(std::get<0>(*expiries_.begin()), now)) {
      const auto [when, owner, task] = *expiries_.begin();
      erase(owner, task);
      ++removed;
    }
    return removed;
  }

  RecordPage page(std::string_view owner_name, const ListRecords& request, WallTime now) const {
    RecordPage page;
    const auto owner = owners_.find(owner_name);
    if (owner == owners_.end()) return page;
    const auto queue = queues_.find(owner_name);
    if (request.only_dead && queue == queues_.end()) return page;
    const auto& order = request.only_dead ? queue->second.dead() : owner->second.order;
    const auto limit = std::clamp<std::size_t>(request.limit, 1, max_record_page);
    std::size_t bytes = 0;
    /// False once the page is full.
    const auto add = [&](const OrderKey& place) {
      const auto& entry = owner->second.records.find(place.second)->second;
      if (!core::is_present(&entry, now)) return true;
      bytes += entry.record.data.size();
      if (page.records.size() == limit || (!page.records.empty() && bytes > max_record_page_bytes)) {
        const auto& last = page.records.back();
        page.next = ListPosition{.created_at = last.created_at, .task = std::string(last.key.task())};
        return false;
      }
      page.records.push_back({.key = *RecordKey::of(owner_name, place.second),
                              .record = entry.record,
                              .created_at = place.first});
      return true;
    };
    const auto after = request.after ? std::optional(OrderKey(request.after->created_at, request.after->task))
                                     : std::nullopt;
    if (request.order == ListOrder::oldest_first) {
      for (auto at = after ? order.upper_bound(*after) : order.begin(); at != order.end() && add(*at); ++at) {
      }
    } else {
      auto at = std::make_reverse_iterator(after ? order.lower_bound(*after) : order.end());
      for (; at != order.rend() && add(*at); ++at) {
      }
    }
    return page;
  }

  /// Adds owners to the page, by name, after `after`, until the page is full. True if there are more.
  bool add_owners(const std::optional<std::string>& after, std::size_t limit, OwnerPage& page) const {
    for (auto at = after ? owners_.upper_bound(*after) : owners_.begin(); at != owners_.end(); ++at) {
      if (page.owners.size() == limit) return true;
      page.owners.push_back(at->first);
    }
    return false;
  }

 private:
  /// A record with this entry is deleted: if that makes room, the first parked one of its limit key is ready.
  void release_parked(std::string_view owner, const QueueOrder& order, const core::QueueEntry& gone) {
    if (!core::has_limit_key(gone) || !core::makes_room(gone.state.place, QueuePlace::finished)) return;
    const auto task = order.first_parked(gone.state.terms.limit_key);
    if (!task) return;
    set_queue(owner, *task, core::moved_to(QueuePlace::ready, *find(owner, *task)->queue));
  }

  using OrderKey = std::pair<WallTime, std::string_view>;  // created_at, task: the order of a list
  struct Owner {
    std::unordered_map<std::string, core::RecordEntry, os::TextHash, std::equal_to<>> records;
    std::set<OrderKey> order;
    std::map<std::string, RecordOutput, std::less<>> outputs;  // by task; most have none
  };

  using Queues = std::map<std::string, QueueOrder, std::less<>>;

  void drop_unused(Queues::iterator at) {
    if (at->second.is_unused()) queues_.erase(at);
  }

  void unindex_expiry(std::string_view owner, std::string_view task, const core::RecordEntry& entry) {
    if (entry.expires_at) expiries_.erase({*entry.expires_at, owner, task});
  }

  /// Sweeps each time the table has doubled, so that records that are used once do not accumulate.
  void sweep_if_grown(WallTime now) {
    if (size_ < sweep_at_) return;
    remove_expired(now);
    sweep_at_ = std::max<std::size_t>(64, size_ * 2);
  }

  std::map<std::string, Owner, std::less<>> owners_;
  Queues queues_;                                                                // by owner
  std::set<std::tuple<WallTime, std::string_view, std::string_view>> expiries_;  // when, owner, task
  std::size_t size_ = 0;
  std::size_t sweep_at_ = 64;
};

}  // namespace holdfast::memory
