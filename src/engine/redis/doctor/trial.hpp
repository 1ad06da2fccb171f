#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/client.hpp"
#include "engine/redis/doctor/observations.hpp"
#include "engine/redis/lock_layout.hpp"
#include "engine/redis/wire/errors.hpp"

namespace holdfast::redis {

/// A connection for one command at a time.
class Line {
 public:
  explicit Line(std::shared_ptr<const Endpoint> endpoint)
      : endpoint_(std::move(endpoint)), client_(Client::make(endpoint_).value_or_throw()) {}
  ~Line() { client_->close(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// The reply, which may be an error reply. Throws Error if there is none.
  Reply ask_bytes(std::string bytes) {
    const auto& options = client_->endpoint().options();
    const auto deadline =
        saturating_add(BootClock::now(), std::max(options.command_timeout, options.connect_timeout));
    auto reply = client_->call_routed({.bytes = std::move(bytes)}, deadline, true).value_or_throw();
    // A client leaves a replica, and pauses before it connects again.
    if (is_from_replica(*reply)) {
      client_->close();
      client_ = Client::make(endpoint_).value_or_throw();
    }
    return reply;
  }
  Reply ask(Command command) { return ask_bytes(std::move(command).bytes()); }

 private:
  std::shared_ptr<const Endpoint> endpoint_;
  std::shared_ptr<Client> client_;
};

/// Tries the rights that a user needs, each with the command itself. ACL DRYRUN and ACL GETUSER would need
/// rights that such a user lacks too, and Redis 6.2 does not have DRYRUN.
///
/// The names are those of a lock and a task that do not exist. A server checks rights before arguments, so
/// commands get invalid arguments (the key again, in place of a number) or ones that match nothing. Only INCR
/// needs a stored value to fail on: that is deleted, or expires within ten seconds.
class RightsTrial {
 public:
  RightsTrial(const std::shared_ptr<const Endpoint>& endpoint, Line& line, const LockLayout& layout,
              const StorageLayout& tasks, const IsHere& is_here);

  /// In the order of `command_rights`. INFO, DBSIZE and SELECT are not tried: other observations show them.
  [[nodiscard]] std::vector<Right> all();
  /// How many subscribers a message to our own subscription reached, if we may subscribe and publish.
  [[nodiscard]] std::optional<std::int64_t> message_reached() const noexcept { return reached_; }

  /// The lock and the task that do not exist.
  [[nodiscard]] const LockId& lock_id() const noexcept { return id_; }
  [[nodiscard]] const LockKey& lock_key() const noexcept { return key_; }
  [[nodiscard]] const RecordKey& task() const noexcept { return task_; }

 private:
  /// Tries a key of each kind: the first refusal counts. Empty if it cannot be tried.
  [[nodiscard]] std::optional<Right> on_keys(const CommandRight& right, Half half);
  [[nodiscard]] Reply on_key(const CommandRight& right, const std::string& key, std::size_t& arguments);
  [[nodiscard]] Right on_channel(const CommandRight& right, Half half);
  [[nodiscard]] std::optional<Right> on_nothing(const CommandRight& right);

  const std::shared_ptr<const Endpoint>& endpoint_;
  Line& line_;
  Line listener_;
  LockId id_;
  LockKey key_;
  RecordKey task_;
  std::array<std::vector<std::string>, halves.size()> keys_;  ///< by Half: one of each kind
  std::array<std::string, halves.size()> channels_, patterns_;
  std::optional<std::int64_t> reached_;
};

}  // namespace holdfast::redis
