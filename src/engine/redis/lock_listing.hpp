#pragma once

#include <hiredis/hiredis.h>

#include <holdfast/lock_backend.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/redis/lock_commands.hpp"

namespace holdfast::redis {

/// One page of LockBackend::list as a machine: send `command`, `take` its reply, until there is no command;
/// then `page`.
///
/// SCAN finds every key that is there throughout at least once, in no order, and its cursors cannot be kept
/// apart from what was seen. So every page scans all names and keeps the first `limit` of those that come,
/// sorted, after the cursor: which is the last name of the page before. That makes each lock appear once over
/// all pages, in bounded memory, at the cost of a scan per page: meant for operators. A page is shorter than
/// the limit where names turn out to be no lock's.
class LockListing {
 public:
  /// `layout` must outlive the listing. InvalidArgument for a cursor that no page ended with.
  [[nodiscard]] static Result<LockListing> start(const Layout& layout, const ListRequest& request);

  [[nodiscard]] std::optional<std::string> command(By by) const;
  /// A NOSCRIPT reply is not to be taken: send `command(By::text)`.
  [[nodiscard]] Status take(const redisReply& reply);
  [[nodiscard]] LockPage page() &&;

 private:
  enum class Step : std::uint8_t { scanning, reading, done };
  LockListing(const Layout& layout, const ListRequest& request);
  [[nodiscard]] Status take_names(const redisReply& reply);
  void consider(std::string_view name);

  const Layout* layout_;
  std::string after_;
  std::size_t limit_;
  Step step_ = Step::scanning;
  std::string scan_cursor_ = "0";
  std::set<std::string, std::less<>> window_;  // the first `limit_` names after `after_`, so far
  bool more_ = false;                          // there are names behind the window
  std::vector<std::string> lock_keys_;
  LockPage page_;
};

}  // namespace holdfast::redis
