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
class NameScan {
 public:
  struct What {
    std::string pattern;               ///< of the keys
    std::string_view type;             ///< as SCAN's TYPE
    std::optional<std::string> after;  ///< after this name
    std::size_t limit = 0;             ///< clamped to 1..most
    std::size_t most = 0;
  };
  explicit NameScan(What what);

  /// A key's name in the list; empty if the key does not belong there.
  using NameOf = std::function<std::optional<std::string_view>(std::string_view key)>;

  [[nodiscard]] bool is_done() const noexcept { return done_; }
  [[nodiscard]] std::optional<RoutedCommand> command() const;
  /// `connection`: the number of the connection that the reply came on.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection, const NameOf& name_of);

  [[nodiscard]] const std::set<std::string, std::less<>>& names() const noexcept { return window_; }
  /// Whether there are names after those.
  [[nodiscard]] bool more() const noexcept { return more_; }

 private:
  void consider(std::string_view name);

  What what_;
  std::string cursor_ = "0";
  std::uint64_t connection_ = 0;
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
  [[nodiscard]] static Result<LockListing> start(const LockLayout& layout, const ListRequest& request);

  [[nodiscard]] std::optional<RoutedCommand> command(By by) const;
  /// `connection`: see NameScan. Do not pass a NOSCRIPT reply: send `command(By::text)`.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] LockPage page() &&;

 private:
  enum class Step : std::uint8_t { scanning, reading, done };
  LockListing(const LockLayout& layout, const ListRequest& request);
  [[nodiscard]] Status take_names(const redisReply& reply, std::uint64_t connection);

  const LockLayout* layout_;
  NameScan scan_;
  Step step_ = Step::scanning;
  std::vector<std::string> lock_keys_;
  LockPage page_;
};

/// One page of ListOwners as a state machine, like LockListing. Owners are found by their indexes: an index
/// exists as long as one of the owner's records does, by any writer, and may exist for a while longer.
class OwnerListing {
 public:
  using Page = OwnerPage;

  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<OwnerListing> start(const StorageLayout& layout, const ListOwners& request);

  [[nodiscard]] std::optional<RoutedCommand> command(By) const { return scan_.command(); }
  /// `connection`: see NameScan.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] OwnerPage page() &&;

 private:
  OwnerListing(const StorageLayout& layout, NameScan scan) : layout_(&layout), scan_(std::move(scan)) {}

  const StorageLayout* layout_;
  NameScan scan_;
};

}  // namespace holdfast::redis
