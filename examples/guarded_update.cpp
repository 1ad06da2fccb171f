// The lock keeps other processes out. The fence protects the data from a late write of a former holder.
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

namespace {

/// Represents the protected data: a database row, an object store, a device.
class Account {
 public:
  /// Refuses a write whose fence is lower than the highest one seen: its sender is a former holder that has
  /// not noticed the loss of its lock.
  bool deposit(int amount, holdfast::Fence fence) {
    if (fence < highest_) return false;
    highest_ = fence;
    balance_ += amount;
    return true;
  }
  [[nodiscard]] int balance() const { return balance_; }

 private:
  int balance_ = 0;
  holdfast::Fence highest_;
};

}  // namespace

int main() {
  auto hf = holdfast::open("memory:");
  Account account;

  // The usual case: lock, write with the fence; the guard releases the lock at the end of its scope.
  holdfast::Fence stale;
  {
    const auto guard = hf.locks().lock("account:7", {.ttl = 30s, .wait = 5s});
    stale = guard.fence();
    if (!account.deposit(100, guard.fence())) return 1;
    std::cout << "fence " << guard.fence().to_string() << " deposited 100\n";
  }

  // The same with a function instead of a scope.
  const int balance =
      hf.locks().with_lock("account:7", {.ttl = 30s, .wait = 5s}, [&](holdfast::Guard& guard) {
        account.deposit(20, guard.fence());
        std::cout << "fence " << guard.fence().to_string() << " deposited 20\n";
        return account.balance();
      });

  // A delayed write of the first holder arrives now.
  const bool accepted = account.deposit(999, stale);
  std::cout << "fence " << stale.to_string()
            << (accepted ? " was accepted!\n" : " came too late and was refused\n");
  return !accepted && balance == 120 && account.balance() == 120 ? 0 : 1;
}
