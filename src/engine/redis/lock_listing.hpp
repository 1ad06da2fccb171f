#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/redis/lock_commands.hpp"
#include "engine/redis/name_scan.hpp"

namespace holdfast::redis {

/// One page of LockBackend::list as a machine: send `command`, `take` its reply, until there is no command;
/// then `page`. A page is shorter than the limit where names turn out to be no lock's.
class LockListing {
 public:
  using Page = LockPage;

  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<LockListing> start(const Layout& layout, const ListRequest& request);

  [[nodiscard]] std::optional<std::string> command(By by) const;
  /// `connection`: see NameScan. A NOSCRIPT reply is not to be taken: send `command(By::text)`.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection);
  [[nodiscard]] LockPage page() &&;

 private:
  enum class Step : std::uint8_t { scanning, reading, done };
  LockListing(const Layout& layout, const ListRequest& request);
  [[nodiscard]] Status take_names(const redisReply& reply, std::uint64_t connection);

  const Layout* layout_;
  NameScan scan_;
  Step step_ = Step::scanning;
  std::vector<std::string> lock_keys_;
  LockPage page_;
};

}  // namespace holdfast::redis
