#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

// Each operation of the storage contract: builds its command and interprets its reply. An error reply, or one
// that the script cannot return, becomes an Error that carries the request's key.
//
// `id` identifies a change: copies that are resent after a lost answer carry the same id. 22 characters of
// base64url.

/// A record keeps the ids of this many of its last writes (parts/task_write.lua).
inline constexpr std::uint64_t remembered_writes = 8;

[[nodiscard]] RoutedCommand get_command(const StorageLayout& layout, const GetRecord& request, By by);
[[nodiscard]] Result<std::optional<StoredRecord>> get_outcome(const redisReply& reply, std::string_view key);

/// Members of a full index whose records may be dead: a create declares those records, and removes the dead
/// ones from the index.
struct QuotaSweep {
  std::string checked = {};  ///< as the script returned it: the last task that is alive
  std::vector<std::string> tasks = {};
};
[[nodiscard]] RoutedCommand create_command(const StorageLayout& layout, const CreateRecord& request,
                                           const std::string& id, const QuotaSweep& sweep, By by);
[[nodiscard]] Result<CreateOutcome> create_outcome(const redisReply& reply, const CreateRecord& request,
                                                   const std::string& id);
/// What the next create must sweep; without tasks: no record is dead, or the quota is not reached.
[[nodiscard]] QuotaSweep next_sweep(const redisReply& reply);
/// The server's time in an answer to create; empty for an error.
[[nodiscard]] std::optional<std::int64_t> server_time_of(const redisReply& reply);

[[nodiscard]] RoutedCommand put_command(const StorageLayout& layout, const PutRecord& request,
                                        const std::string& id, By by);
[[nodiscard]] Result<PutOutcome> put_outcome(const redisReply& reply, const PutRecord& request);

/// `channels`: the kind of the channels of processes that wait for a queue (QueueClient).
[[nodiscard]] RoutedCommand remove_command(const StorageLayout& layout, const RemoveRecord& request,
                                           std::string_view channels, By by);
[[nodiscard]] Result<RemoveOutcome> remove_outcome(const redisReply& reply, const RemoveRecord& request);

[[nodiscard]] RoutedCommand guard_command(const StorageLayout& layout, const BindRecord& request,
                                          const std::string& id, By by);
[[nodiscard]] Result<BindOutcome> guard_outcome(const redisReply& reply, const BindRecord& request);

[[nodiscard]] RoutedCommand rebind_command(const StorageLayout& layout, const RebindRecord& request, By by);
[[nodiscard]] Result<RebindOutcome> rebind_outcome(const redisReply& reply, const RebindRecord& request);

// Output is kept in fields of the record's hash: so it expires and is removed with the record, also by other
// software. An append may be sent twice: positions show what is there already. See output_commands.cpp.

[[nodiscard]] RoutedCommand append_command(const StorageLayout& layout, const AppendOutput& request, By by);
[[nodiscard]] Result<AppendOutcome> append_outcome(const redisReply& reply, const AppendOutput& request);

[[nodiscard]] RoutedCommand read_command(const StorageLayout& layout, const ReadOutput& request, By by);
[[nodiscard]] Result<std::optional<KeptOutput>> read_outcome(const redisReply& reply,
                                                             const ReadOutput& request);

/// One page of ListRecords as a state machine: send `command`, `take` its reply, until it `is_done`; then
/// read `page`. Two commands in turn: the next members of the index, then their records, which the second one
/// declares as its keys. They repeat while the page has room and there are members: dead ones take up none.
class RecordListing {
 public:
  /// `request.prefix` without its colon is the owner.
  explicit RecordListing(const ListRecords& request);

  [[nodiscard]] RoutedCommand command(const StorageLayout& layout, By by) const;
  [[nodiscard]] Status take(const redisReply& reply);
  [[nodiscard]] bool is_done() const noexcept { return step_ == Step::done; }
  [[nodiscard]] RecordPage page() && { return std::move(page_); }

 private:
  enum class Step : std::uint8_t { members, records, done };
  struct Member {
    std::string score, task;
  };
  [[nodiscard]] bool take_members(const redisReply& reply);
  [[nodiscard]] bool take_records(const redisReply& reply);

  std::string owner_;
  std::optional<ListPosition> after_;
  std::size_t room_;  ///< for so many records
  std::size_t bytes_;
  bool newest_first_, only_dead_;
  Step step_ = Step::members;
  std::vector<Member> members_;
  bool more_members_ = false;
  std::size_t seen_ = 0;  ///< members
  RecordPage page_;
};

}  // namespace holdfast::redis
