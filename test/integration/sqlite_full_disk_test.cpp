// A full disk: what still works, and what the errors say. Each test has a small file system of its own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <string>

#include "engine/sqlite/shared_memory.hpp"
#include "support/in_child.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class SqliteFullDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_small_disk([] { return true; })) GTEST_SKIP() << "needs the right to mount in a namespace";
  }

  /// Runs `body` in a process of its own, where the directory is a file system of 1 MiB.
  template <class F>
  bool on_small_disk(F body) {
    return in_child([&] {
      const auto user = geteuid();
      if (user != 0 && unshare(CLONE_NEWUSER) != 0) return false;
      if (unshare(CLONE_NEWNS) != 0) return false;
      if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
      if (mount("small", directory.path().c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) return false;
      try {
        return body();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return false;
      }
    });
  }

  [[nodiscard]] std::string file() const { return (directory / "locks.db").string(); }
  [[nodiscard]] std::string url() const { return "sqlite:" + file(); }
  [[nodiscard]] std::string filler() const { return (directory / "filler").string(); }

  void fill() const {
    const int fd = ::open(filler().c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    const std::string page(4096, 'x');
    while (write(fd, page.data(), page.size()) > 0) {
    }
    close(fd);
  }
  void free(std::uintmax_t bytes) const {
    std::filesystem::resize_file(filler(), std::filesystem::file_size(filler()) - bytes);
  }

  /// The error of opening the store; empty if there is none.
  [[nodiscard]] std::string refusal() const {
    try {
      const auto holdfast = open(url());
      auto guard = holdfast.locks().lock("k");
      guard.release();
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + " " + error.message();
    }
    return "";
  }

  TempDir directory;
};

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) std::fprintf(stderr, "no \"%s\" in: %s\n", part.c_str(), text.c_str());
  return found;
}

TEST_F(SqliteFullDisk, AProcessThatComesWhenNoneHasTheStoreOpenSaysWhatNeedsSpace) {
  EXPECT_TRUE(on_small_disk([&] {
    if (!refusal().empty()) return false;
    fill();
    const auto refused = refusal();
    const auto again = refusal();
    free(48 * 1024);
    return contains(refused, "RateLimited cannot use " + file() + ": the disk or quota is full") &&
           contains(refused, file() + "-shm (32 KiB)") && contains(refused, "retry") && again == refused &&
           refusal().empty();
  }));
}

TEST_F(SqliteFullDisk, ANewDatabaseNeedsSpaceAndSaysSo) {
  EXPECT_TRUE(on_small_disk([&] {
    fill();
    const auto refused = refusal();
    free(512 * 1024);
    return contains(refused, "RateLimited cannot use " + file() + ": the disk or quota is full") &&
           refusal().empty();
  }));
}

TEST_F(SqliteFullDisk, WhileTheStoreIsOpenLocksAreGrantedRenewedAndReleased) {
  EXPECT_TRUE(on_small_disk([&] {
    const auto kept = open(url());
    auto holder = kept.locks().lock("held", {.ttl = 1min});
    fill();
    for (int i = 0; i < 50; ++i) {
      if (const auto refused = refusal(); !refused.empty()) return contains("", refused);
      holder.extend(1min);
    }
    return holder.still_held() && holder.release();
  }));
}

TEST_F(SqliteFullDisk, SharedMemoryThatHasNoPlaceIsAnErrorAndNoSignal) {
  EXPECT_TRUE(on_small_disk([&] {
    constexpr std::size_t bytes = 32 * 1024;
    const int fd = ::open((directory / "hole").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (ftruncate(fd, bytes) != 0) return false;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return false;
    fill();
    const bool refused = !sqlite::reserve_pages(memory, bytes) && errno == ENOSPC;
    free(64 * 1024);
    return refused && sqlite::reserve_pages(memory, bytes);
  }));
}

}  // namespace
}  // namespace holdfast::test
