#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/storage_backend.hpp>
#include <optional>
#include <string>

#include "engine/redis/name_scan.hpp"
#include "engine/redis/script.hpp"
#include "engine/redis/storage_layout.hpp"

namespace holdfast::redis {

/// One page of ListOwners as a machine, as LockListing is. Owners are those who have an
/// index: it is there as long as one of their records is, whoever wrote it, and may be there for a while
/// longer.
class OwnerListing {
 public:
  using Page = OwnerPage;

  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<OwnerListing> start(const StorageLayout& layout, const ListOwners& request);

  [[nodiscard]] std::optional<std::string> command(By) const { return scan_.command(); }
  /// `connection`: see NameScan.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] OwnerPage page() &&;

 private:
  OwnerListing(const StorageLayout& layout, NameScan scan) : layout_(&layout), scan_(std::move(scan)) {}

  const StorageLayout* layout_;
  NameScan scan_;
};

}  // namespace holdfast::redis
