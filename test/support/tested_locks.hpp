#pragma once

#include <holdfast/asio/locks.hpp>
#include <holdfast/locks.hpp>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/asio_thread.hpp"

/// Locks and guards for tests that hold through whichever facade they are used. The calls are those of Locks
/// and Guard; through the Asio facade, a thread waits for the completion on an io_context's thread.
namespace holdfast::test {

/// A way to use locks.
struct Facade {
  std::string name;
  bool asio = false;  ///< through AsyncLocks; else through Locks

  // A lawful difference.
  /// Destructors wait for the release and for callbacks that run, and a loss callback has a thread of its
  /// own. Else a destructor returns at once, the release goes on in the background, and a loss callback is
  /// posted to the executor.
  bool waits = true;
};

void PrintTo(const Facade& facade, std::ostream* out);
std::vector<Facade> facades();
/// Those that wait.
std::vector<Facade> waiting_facades();

class TestedGuard {
  template <class Call>
  auto either(Call call) const {
    return thread_ ? call(async_) : call(guard_);
  }

 public:
  TestedGuard() = default;
  explicit TestedGuard(Guard guard) : guard_(std::move(guard)) {}
  TestedGuard(std::shared_ptr<AsioThread> thread, AsyncGuard guard)
      : thread_(std::move(thread)), async_(std::move(guard)) {}
  TestedGuard(TestedGuard&&) noexcept = default;
  TestedGuard& operator=(TestedGuard&& other) noexcept;
  ~TestedGuard() = default;

  [[nodiscard]] explicit operator bool() const noexcept {
    return either([](auto& guard) { return static_cast<bool>(guard); });
  }
  [[nodiscard]] std::string key() const {
    return either([](auto& guard) { return guard.key(); });
  }
  [[nodiscard]] LockId id() const {
    return either([](auto& guard) { return guard.id(); });
  }
  [[nodiscard]] Fence fence() const {
    return either([](auto& guard) { return guard.fence(); });
  }
  [[nodiscard]] std::string authority() const {
    return either([](auto& guard) { return guard.authority(); });
  }
  [[nodiscard]] WallTime expires_at() const {
    return either([](auto& guard) { return guard.expires_at(); });
  }
  [[nodiscard]] std::chrono::nanoseconds remaining() const {
    return either([](auto& guard) { return guard.remaining(); });
  }
  [[nodiscard]] bool still_held() const {
    return either([](auto& guard) { return guard.still_held(); });
  }
  [[nodiscard]] std::stop_token lost() const {
    return either([](auto& guard) { return guard.lost(); });
  }
  [[nodiscard]] std::optional<LossReason> loss_reason() const {
    return either([](auto& guard) { return guard.loss_reason(); });
  }
  [[nodiscard]] bool at_risk() const {
    return either([](auto& guard) { return guard.at_risk(); });
  }
  void on_lost(std::function<void(LossReason)> callback);
  void on_at_risk(std::function<void(bool)> callback);
  void on_release_error(std::function<void(const Error&)> callback);

  bool release();
  bool extend(std::chrono::milliseconds ttl);
  [[nodiscard]] std::optional<Lease> detach();

 private:
  std::shared_ptr<AsioThread> thread_;  ///< null for the blocking facade
  Guard guard_;
  AsyncGuard async_;
};

class TestedLocks {
 public:
  TestedLocks(const Facade& facade, std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log = nullptr);

  [[nodiscard]] TestedGuard lock(std::string_view key, const LockOptions& options = {},
                                 const std::stop_token& stop = {});
  [[nodiscard]] std::optional<TestedGuard> try_lock(std::string_view key, const LockOptions& options = {},
                                                    const std::stop_token& stop = {});
  [[nodiscard]] std::optional<TestedGuard> adopt(const Lease& lock, const LockOptions& options = {});
  [[nodiscard]] Lease acquire(std::string_view key, const LockOptions& options = {});
  bool release(std::string_view lock_id);
  std::optional<WallTime> extend(std::string_view lock_id, std::chrono::milliseconds ttl);
  [[nodiscard]] bool is_locked(std::string_view key);
  [[nodiscard]] std::optional<LockInfo> get_by_key(std::string_view key);
  [[nodiscard]] std::optional<LockInfo> get_by_id(std::string_view lock_id);
  [[nodiscard]] std::optional<LockRecord> get_by_key_raw(std::string_view key);
  [[nodiscard]] std::optional<LockRecord> get_by_id_raw(std::string_view lock_id);
  [[nodiscard]] bool owns(std::string_view key, std::string_view lock_id);
  [[nodiscard]] LockPage list(const ListLocks& what = {});
  std::optional<LockInfo> break_lock(std::string_view key, std::string_view reason);

 private:
  /// `call(locks)` on the blocking one, or `call(locks, token)` on the other.
  template <class T, class Call>
  T ask(const Call& call, const std::stop_token& stop = {});
  TestedGuard tested(Guard guard) const { return TestedGuard(std::move(guard)); }
  TestedGuard tested(AsyncGuard guard) const { return {thread_, std::move(guard)}; }
  template <class G>
  std::optional<TestedGuard> tested(std::optional<G> guard) const {
    return guard ? std::optional(tested(*std::move(guard))) : std::nullopt;
  }

  std::shared_ptr<AsioThread> thread_;  ///< null for the blocking facade
  Locks locks_;
};

}  // namespace holdfast::test
