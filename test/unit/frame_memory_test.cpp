#include "runtime/frame_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace holdfast::runtime {
namespace {

TEST(FrameMemory, ABlockIsReusedForAFrameOfAboutTheSameSize) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr bool reused = false;
#else
  constexpr bool reused = true;
#endif
  void* const first = allocate_frame(700);
  free_frame(first, 700);
  void* const second = allocate_frame(600);  // kept blocks come in steps of 256 bytes
  EXPECT_EQ(second == first, reused);
  void* const other = allocate_frame(300);
  EXPECT_NE(other, first);
  free_frame(second, 600);
  free_frame(other, 300);
}

TEST(FrameMemory, BlocksInUseNeverOverlap) {
  constexpr std::size_t sizes[] = {1, 255, 256, 257, 700, 1424, 2047, 2048, 2049, 100'000};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<unsigned char*, std::size_t>> used;
    for (int copy = 0; copy < 5; ++copy) {
      for (const auto size : sizes) {
        auto* const block = static_cast<unsigned char*>(allocate_frame(size));
        std::memset(block, static_cast<int>(used.size() + 1), size);
        used.emplace_back(block, size);
      }
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      const auto [block, size] = used[i];
      for (std::size_t at = 0; at < size; ++at) ASSERT_EQ(block[at], i + 1) << size;
    }
    for (const auto& [block, size] : used) free_frame(block, size);
  }
}

TEST(FrameMemory, ABlockMayBeFreedOnAnotherThreadThatEnds) {
  for (int i = 0; i < 100; ++i) {
    void* const frame = allocate_frame(500);
    std::thread([frame] { free_frame(frame, 500); }).join();
  }
}

/// Freed while the thread ends, before or after the kept blocks are.
struct FreesAtThreadEnd {
  void* frame = nullptr;
  ~FreesAtThreadEnd() {
    if (frame != nullptr) free_frame(frame, 500);
  }
};

TEST(FrameMemory, AFrameMayEndWithItsThread) {
  std::thread([] {
    static thread_local FreesAtThreadEnd first;
    first.frame = allocate_frame(500);
    free_frame(allocate_frame(300), 300);  // from now on the thread keeps blocks
    static thread_local FreesAtThreadEnd second;
    second.frame = allocate_frame(500);
  }).join();
}

}  // namespace
}  // namespace holdfast::runtime
