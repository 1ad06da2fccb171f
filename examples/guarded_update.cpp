// A lock protects its holder from others; the fence protects the data from a holder that is late.
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

namespace {

/// Stands for the thing that is written to: a database row, an object store, a device.
class Account {
 public:
  /// Refuses a write with a lower fence than one it has seen: whoever sends that held the lock before
  /// somebody else did, and does not know yet that it has lost it.
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

  // The ordinary case: lock, write with the fence, and the guard releases at the end of its scope.
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

  // A write of the first holder that was under way all the time arrives at last.
  const bool accepted = account.deposit(999, stale);
  std::cout << "fence " << stale.to_string()
            << (accepted ? " was accepted!\n" : " came too late and was refused\n");
  return !accepted && balance == 120 && account.balance() == 120 ? 0 : 1;
}
