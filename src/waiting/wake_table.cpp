#include "waiting/wake_table.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>

#include "os/errno_error.hpp"
#include "os/process.hpp"

namespace holdfast::waiting {
namespace {

/// Btrfs writes each changed page of a file to a new place, which fails on a full disk: the same SIGBUS. The
/// flag against that can be set only on an empty file; other file systems do not support it.
void do_not_copy_on_write(int fd) noexcept {
  int attributes = 0;
  if (ioctl(fd, FS_IOC_GETFLAGS, &attributes) != 0) return;
  attributes |= FS_NOCOW_FL;
  ioctl(fd, FS_IOC_SETFLAGS, &attributes);
}

}  // namespace

class WakeTable::KeyWatch final : public Watch {
 public:
  KeyWatch(std::shared_ptr<WakeTable> table, WakeWords::Place place, Wakes wakes) noexcept
      : table_(std::move(table)), waiter_(*table_->listener_, place, wakes) {
    if (wakes == Wakes::one) table_->marks_.add(place);
  }
  ~KeyWatch() override {
    if (waiter_.wakes == Wakes::one) table_->marks_.remove(waiter_.place);
  }

  void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) override {
    auto& listener = *table_->listener_;
    // A thread that blocks anyway sleeps on the word itself, even in a forked child.
    if (woken.is_awaited()) return woken(sleep_until(std::min(look_again_at, deadline), stop));
    if (!listener.in_own_process()) return woken(false);
    if (!listener.start())
      return woken(Error(ErrorCode::Internal, "cannot start the thread that receives wake-ups"));
    listener.begin_wait(waiter_, look_again_at, deadline, stop, std::move(woken));
  }

  void pass_on() noexcept override {
    if (waiter_.wakes == Wakes::one) table_->wake(waiter_.place, 1);
  }

 private:
  [[nodiscard]] WakeWords::Word& word() const noexcept { return table_->words_->word_of(waiter_.place); }

  /// True if woken.
  bool sleep_until(BootTime until, const std::stop_token& stop) {
    // Changing the word before waking also reaches a thread that is only about to sleep. Other sleepers on
    // this word wake up needlessly and retry.
    const std::stop_callback interrupt(stop, [this] { table_->wake_sleepers(waiter_.place, INT_MAX); });
    while (!stop.stop_requested()) {
      const auto left = until - BootClock::now();
      if (left <= std::chrono::nanoseconds::zero()) return false;
      if (sleep(std::min(left, os::longest_futex_sleep))) {
        waiter_.seen = word().changes.load();
        return !stop.stop_requested();
      }
    }
    return false;
  }

  /// True if the word has changed or another thread woke us.
  bool sleep(std::chrono::nanoseconds at_most) noexcept {
    word().sleepers.fetch_add(1);
    const bool woken =
        os::futex_wait(word().changes, waiter_.seen, at_most, waiter_.place.mask(), table_->words_->scope());
    word().sleepers.fetch_sub(1);
    return woken;
  }

  std::shared_ptr<WakeTable> table_;
  WakeListener::Waiter waiter_;
};

class WakeTable::Feed final : public ChangeFeed {
 public:
  explicit Feed(std::shared_ptr<WakeTable> table) noexcept
      : table_(std::move(table)), follower_(*table_->listener_) {}

  void wait(BootTime deadline, std::stop_token stop, Done<std::vector<Change>> changes) override {
    auto& listener = *table_->listener_;
    if (!listener.in_own_process()) return changes(os::used_after_fork());
    if (!listener.start())
      return changes(Error(ErrorCode::Internal, "cannot start the thread that receives wake-ups"));
    listener.begin_follow(follower_, deadline, stop,
                          [done = std::move(changes)](const Result<bool>& woken) mutable {
                            done(std::vector<Change>(woken && *woken ? 1 : 0));
                          });
  }

 private:
  std::shared_ptr<WakeTable> table_;
  WakeListener::Follower follower_;
};

MappedWakeWords::~MappedWakeWords() {
  munmap(words_, sizeof(WakeWords));
}

WakeTable::WakeTable(std::shared_ptr<MappedWakeWords> words, std::optional<MarkFile> file)
    : words_(std::move(words)), listener_(std::make_shared<WakeListener>(words_)), marks_(file) {
  if (file) processes_.emplace(*std::move(file));
}

WakeTable::~WakeTable() {
  if (listener_->in_own_process()) {
    listener_->stop();
  } else {
    // The thread is not in this process, and may hold the mutex: leak the listener untouched.
    new std::shared_ptr<WakeListener>(std::move(listener_));
  }
}

std::shared_ptr<WakeTable> WakeTable::in_process() {
  void* memory = mmap(nullptr, sizeof(WakeWords), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw os::errno_error("cannot map memory for the waiters of this process");
  return std::shared_ptr<WakeTable>(
      new WakeTable(std::make_shared<MappedWakeWords>(memory, os::FutexScope::process())));
}

Result<std::shared_ptr<WakeTable>> WakeTable::in_file(const std::filesystem::path& file,
                                                      const os::FileTrust& beside) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(file.c_str(), flags | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) {
    // If one of these fails, others poll.
    if (::geteuid() == 0) static_cast<void>(::fchown(fd, beside.owner, beside.group) == 0);
    fchmod(fd, beside.mode & 0666U);  // whatever the umask
    do_not_copy_on_write(fd);
  } else if (errno == EEXIST) {
    fd = ::open(file.c_str(), flags);
  }
  if (fd < 0) return os::errno_error("cannot open " + file.string());
  struct stat found{};
  if (::fstat(fd, &found) != 0 || !beside.trusts(found)) {
    ::close(fd);
    return Error(ErrorCode::AuthFailed,
                 "cannot use " + file.string() +
                     ": it is not a regular file, or has another owner than the database; remove it");
  }
  // Real blocks, because touching a hole of a mapped file on a full disk kills the process (SIGBUS). A file
  // system that copies on write may need more even then; see above.
  // It never shrinks the file, so processes that start together do not disturb each other.
  int failed = posix_fallocate(fd, 0, sizeof(WakeWords));
  void* memory = MAP_FAILED;
  if (failed == 0) {
    memory = mmap(nullptr, sizeof(WakeWords), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) failed = errno;
  }
  ::close(fd);
  if (failed != 0) {
    errno = failed;
    return os::errno_error("cannot map " + file.string());
  }
  return std::shared_ptr<WakeTable>(
      new WakeTable(std::make_shared<MappedWakeWords>(memory, os::FutexScope::machine()),
                    MarkFile{.path = file, .device = found.st_dev, .inode = found.st_ino}));
}

void WakeTable::wake(WakeWords::Place place, int count) const noexcept {
  wake_sleepers(place, count);
  if ((*words_)->listeners.load() != 0) WakeListener::notify(*words_, place);
}

void WakeTable::wake_sleepers(WakeWords::Place place, int count) const noexcept {
  auto& word = words_->word_of(place);
  word.changes.fetch_add(1);
  if (word.sleepers.load() != 0) os::futex_wake(word.changes, count, place.mask(), words_->scope());
}

void WakeTable::wake_one(Place place) noexcept {
  wake(place, 1);
}

void WakeTable::wake_all(std::string_view key) noexcept {
  wake(WakeWords::Place::of(key), INT_MAX);
}

std::unique_ptr<Watch> WakeTable::watch(Place place, Wakes wakes) {
  return std::make_unique<KeyWatch>(shared_from_this(), place, wakes);
}

std::unique_ptr<ChangeFeed> WakeTable::follow() {
  return std::make_unique<Feed>(shared_from_this());
}

std::optional<std::uint32_t> WakeTable::count_waiters(Place place) {
  return marks_.count(place);
}

}  // namespace holdfast::waiting
