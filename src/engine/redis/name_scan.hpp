#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <functional>
#include <holdfast/result.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The first names, in the order of their bytes, behind a place, of those that keys have: send `command`,
/// `take` its reply, until there is no command; then `names`.
///
/// SCAN finds every key that is there throughout at least once, in no order, and its cursors cannot be kept
/// apart from what was seen. So whoever lists a page scans all names and keeps the first of those that come
/// behind the page before. That makes each name appear once over all pages, in bounded memory, at the cost of
/// a scan per page: meant for operators.
///
/// A scan cursor counts buckets of one server process's table, whose order is drawn when it starts. On
/// another connection there may be another process, where going on would miss names: then the scan begins
/// again.
class NameScan {
 public:
  struct What {
    std::string pattern;               ///< of the keys
    std::string_view type;             ///< as SCAN's TYPE
    std::optional<std::string> after;  ///< behind this name
    std::size_t limit = 0;             ///< clamped to 1..most
    std::size_t most = 0;
  };
  explicit NameScan(What what);

  /// What a key is called in the list; nothing if it does not belong there.
  using NameOf = std::function<std::optional<std::string_view>(std::string_view key)>;

  [[nodiscard]] bool is_done() const noexcept { return done_; }
  [[nodiscard]] std::optional<std::string> command() const;
  /// `connection`: which one the reply came on.
  [[nodiscard]] Status take(const redisReply& reply, std::uint64_t connection, const NameOf& name_of);

  [[nodiscard]] const std::set<std::string, std::less<>>& names() const noexcept { return window_; }
  /// Whether there are names behind those.
  [[nodiscard]] bool more() const noexcept { return more_; }

 private:
  void consider(std::string_view name);

  What what_;
  std::string cursor_ = "0";
  std::uint64_t connection_ = 0;
  std::set<std::string, std::less<>> window_;  // the first `limit` names behind `after`, so far
  bool more_ = false;
  bool done_ = false;
};

}  // namespace holdfast::redis
