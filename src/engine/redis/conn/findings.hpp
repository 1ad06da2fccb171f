#pragma once

#include <algorithm>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// Why none of several servers could be used, for one message: servers with the same reason are named
/// together.
class Findings {
 public:
  /// `kind` is a noun whose plural has an s: "sentinel".
  void add(std::string_view kind, std::string where, const Error& error) {
    auto reason = error.message();
    if (!error.cause().empty()) reason += " (" + error.cause() + ")";
    auto same = std::ranges::find_if(
        all_, [&](const Finding& one) { return one.kind == kind && one.reason == reason; });
    if (same == all_.end()) {
      all_.push_back({.kind = std::string(kind), .where = {}, .reason = std::move(reason)});
      same = all_.end() - 1;
    }
    if (std::ranges::find(same->where, where) == same->where.end()) same->where.push_back(std::move(where));
  }

  /// "sentinels a:1 and b:1: cannot connect; master c:1: ..."
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& one : all_) {
      text += (text.empty() ? "" : "; ") + one.kind + (one.where.size() > 1 ? "s " : " ");
      for (std::size_t i = 0; i < one.where.size(); ++i) {
        text += (i == 0 ? "" : i + 1 == one.where.size() ? " and " : ", ") + one.where[i];
      }
      text += ": " + one.reason;
    }
    return text;
  }

 private:
  struct Finding {
    std::string kind;
    std::vector<std::string> where;
    std::string reason;
  };
  std::vector<Finding> all_;
};

}  // namespace holdfast::redis
