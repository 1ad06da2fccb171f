#include "engine/redis/owner_listing.hpp"

#include "core/record_request.hpp"

namespace holdfast::redis {

Result<OwnerListing> OwnerListing::start(const StorageLayout& layout, const ListOwners& request) {
  auto after = core::owner_before(request.cursor);
  if (!after) return after.error();
  return OwnerListing(layout, NameScan({.pattern = layout.index_pattern(),
                                        .type = "zset",
                                        .after = *std::move(after),
                                        .limit = request.limit,
                                        .most = max_record_page}));
}

Status OwnerListing::take(const redisReply& reply, std::uint64_t connection) {
  return scan_.take(reply, connection, [this](std::string_view key) { return layout_->owner_of_index(key); });
}

OwnerPage OwnerListing::page() && {
  const auto& names = scan_.names();
  return {.owners = {names.begin(), names.end()},
          .cursor = scan_.more() ? core::cursor_behind(*names.rbegin()) : std::string()};
}

}  // namespace holdfast::redis
