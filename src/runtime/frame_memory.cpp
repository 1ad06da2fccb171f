#include "runtime/frame_memory.hpp"

#include <array>
#include <new>

namespace holdfast::runtime {
namespace {

constexpr std::size_t block_step = 256;
constexpr std::size_t classes = 8;       ///< up to 2 KiB; larger frames are not kept
constexpr std::size_t kept_of_each = 2;  ///< an operation and one that it awaits may have the same size

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif

std::size_t class_of(std::size_t size) noexcept {
  return (size + block_step - 1) / block_step - 1;
}
std::size_t block_size(std::size_t size) noexcept {
  return class_of(size) < classes ? (class_of(size) + 1) * block_step : size;
}

/// Trivially destructible, so that frames can be freed by destructors of other thread-local objects: they
/// find it closed, not destroyed.
struct KeptBlocks {
  struct Class {
    std::array<void*, kept_of_each> blocks;
    std::size_t count;
  };
  std::array<Class, classes> of_size;
  enum class State : unsigned char { unused, open, closed } state;
};
constinit thread_local KeptBlocks kept{};

/// Frees the blocks at the end of the thread.
struct AtThreadEnd {
  ~AtThreadEnd() {
    kept.state = KeptBlocks::State::closed;
    for (auto& one : kept.of_size) {
      while (one.count > 0) ::operator delete(one.blocks[--one.count]);
    }
  }
};

bool is_open() {
  if (kept.state == KeptBlocks::State::unused) {
    static thread_local const AtThreadEnd at_end;
    kept.state = KeptBlocks::State::open;
  }
  return kept.state == KeptBlocks::State::open;
}

}  // namespace

void* allocate_frame(std::size_t size) {
  const std::size_t at = class_of(size);
  if (keeps_blocks && at < classes) {
    auto& one = kept.of_size[at];
    if (one.count > 0) return one.blocks[--one.count];
  }
  return ::operator new(block_size(size));
}

void free_frame(void* frame, std::size_t size) noexcept {
  const std::size_t at = class_of(size);
  if (keeps_blocks && at < classes && is_open()) {
    auto& one = kept.of_size[at];
    if (one.count < one.blocks.size()) {
      one.blocks[one.count++] = frame;
      return;
    }
  }
  ::operator delete(frame);
}

}  // namespace holdfast::runtime
