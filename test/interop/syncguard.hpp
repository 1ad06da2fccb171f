#pragma once

#include <sys/types.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "support/redis_server.hpp"

namespace holdfast::test {

/// A SyncGuard in another process: syncguard.cjs under Node.js. Its answers are taken as they come; an error
/// there, or silence, throws.
class SyncGuard {
 public:
  SyncGuard(const RedisServer& server, const std::string& prefix);
  ~SyncGuard();
  SyncGuard(const SyncGuard&) = delete;
  SyncGuard& operator=(const SyncGuard&) = delete;

  /// Why there can be none here; empty if there can. With HOLDFAST_REQUIRE_ALL=1 a reason is also a failure.
  [[nodiscard]] static std::string missing();

  struct Lock {
    std::string id, fence;
    std::int64_t expires_at = 0;
  };
  /// Nothing if refused.
  std::optional<Lock> acquire(std::string_view key, std::chrono::milliseconds ttl = std::chrono::seconds(60));
  /// The script's own code.
  std::int64_t release(std::string_view lock_id);
  std::int64_t extend(std::string_view lock_id, std::chrono::milliseconds ttl = std::chrono::seconds(60));
  bool is_locked(std::string_view key);
  /// The record, or null.
  nlohmann::json lookup(std::string_view key);
  nlohmann::json lookup_by_id(std::string_view lock_id);
  std::string hash(std::string_view text);
  nlohmann::json names(std::string_view key, std::string_view lock_id);

  /// For requests that are answered later.
  void send(const nlohmann::json& request);
  nlohmann::json receive();

 private:
  nlohmann::json ask(const nlohmann::json& request);

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string unread_;
};

}  // namespace holdfast::test
