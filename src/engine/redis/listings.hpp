#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <functional>
#include <holdfast/lock_backend.hpp>
#include <holdfast/result.hpp>
#include <holdfast/storage_backend.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/layout.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

/// Finds the first names of keys after a position, in byte order: send `command`, `take` its reply, until
/// there is no command; then read `names`.
///
/// SCAN returns every key that exists throughout at least once, in no order, and its cursor does not say
/// which names were seen. So each page scans all names and keeps the first ones that come after the previous
/// page. So each name appears once over all pages, in bounded memory, at the cost of one scan per page: meant
/// for operators.
///
/// A scan cursor counts buckets of one server process's table, whose order is random per process. Another
/// connection may lead to another process, where continuing would miss names: then the scan restarts.
///
/// The masters of a cluster are scanned one after another. A key that moves between them meanwhile, from one
/// that was not scanned yet to one that was, is missed.
class NameScan {
 public:
  /// Where a scan continues. A scan by steps, for LockOrder::as_found, is one SCAN command per page.
  struct Position {
    std::size_t scanned = 0;  ///< masters
    std::uint64_t connection = 0;
    std::string cursor = "0";
    [[nodiscard]] static std::optional<Position> parse(std::string_view text);
    [[nodiscard]] std::string str() const;
  };
  struct What {
    std::string pattern;               ///< of the keys
    std::string_view type;             ///< as SCAN's TYPE
    std::optional<std::string> after;  ///< after this name
    std::size_t limit = 0;             ///< clamped to 1..most
    std::size_t most = 0;
    std::vector<std::uint32_t> masters = {};      ///< of a cluster; empty: one server
    std::optional<Position> step = std::nullopt;  ///< one step from here: all names that it finds
  };
  explicit NameScan(What what);

  /// A key's name in the list; empty if the key does not belong there.
  using NameOf = std::function<std::optional<std::string_view>(std::string_view key)>;

  [[nodiscard]] bool is_done() const noexcept { return done_; }
  /// That `command` is for; empty: there is one server.
  [[nodiscard]] std::optional<std::uint32_t> master() const {
    return at_.scanned < what_.masters.size() ? std::optional(what_.masters[at_.scanned]) : std::nullopt;
  }
  [[nodiscard]] std::optional<RoutedCommand> command() const;
  /// `connection`: the number of the connection that the reply came on.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection, const NameOf& name_of);

  [[nodiscard]] const std::set<std::string, std::less<>>& names() const noexcept { return window_; }
  /// Whether there may be names after those.
  [[nodiscard]] bool more() const noexcept { return more_; }
  /// Of the next step.
  [[nodiscard]] const Position& position() const noexcept { return at_; }

 private:
  void consider(std::string_view name);

  What what_;
  Position at_;
  std::set<std::string, std::less<>> window_;  // the first `limit` names after `after`, so far
  bool more_ = false;
  bool done_ = false;
};

/// One page of LockBackend::list as a state machine: send `command`, `take` its reply, until there is no
/// command; then read `page`. A page is shorter than the limit if some names turn out not to be locks.
class LockListing {
 public:
  using Page = LockPage;

  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<LockListing> start(const LockLayout& layout, const ListRequest& request,
                                                 std::vector<std::uint32_t> masters = {});

  [[nodiscard]] std::optional<RoutedCommand> command(By by) const;
  /// That `command` is for; empty: the one of its key.
  [[nodiscard]] std::optional<std::uint32_t> master() const {
    return step_ == Step::scanning ? scan_.master() : std::nullopt;
  }
  /// `connection`: see NameScan. Do not pass a NOSCRIPT reply: send `command(By::text)`.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] LockPage page() &&;

 private:
  enum class Step : std::uint8_t { scanning, reading, done };
  LockListing(const LockLayout& layout, const ListRequest& request, std::vector<std::uint32_t> masters);
  [[nodiscard]] Status take_names(const redisReply& reply, std::uint64_t connection);
  /// Reads the locks at these lock keys next.
  void read(std::vector<std::string> lock_keys);

  const LockLayout* layout_;
  bool in_cluster_;
  bool as_found_;
  const KnownLocks* known_;  ///< may be null
  NameScan scan_;
  Step step_ = Step::scanning;
  /// The lock keys, together as far as one command can read them: on a cluster, those of one slot.
  std::vector<std::vector<std::string>> unread_;
  LockPage page_;
};

/// One page of ListOwners as a state machine, like LockListing. Owners are found by their indexes: an index
/// exists as long as one of the owner's records does, by any writer, and may exist for a while longer.
class OwnerListing {
 public:
  using Page = OwnerPage;

  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<OwnerListing> start(const StorageLayout& layout, const ListOwners& request,
                                                  std::vector<std::uint32_t> masters = {});

  [[nodiscard]] std::optional<RoutedCommand> command(By) const { return scan_.command(); }
  /// See LockListing.
  [[nodiscard]] std::optional<std::uint32_t> master() const { return scan_.master(); }
  /// `connection`: see NameScan.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] OwnerPage page() &&;

 private:
  OwnerListing(const StorageLayout& layout, NameScan scan) : layout_(&layout), scan_(std::move(scan)) {}

  const StorageLayout* layout_;
  NameScan scan_;
};

}  // namespace holdfast::redis
