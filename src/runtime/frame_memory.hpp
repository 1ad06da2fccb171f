#pragma once

#include <cstddef>

namespace holdfast::runtime {

/// Memory for the coroutine frames of operations. Each thread keeps the last few blocks that were freed on it
/// and hands them out again, so that an operation whose predecessor on the thread has ended allocates
/// nothing. A block may be freed on another thread than the one that allocated it. Builds with
/// AddressSanitizer keep no blocks: it would not see a frame that is used after its end.
[[nodiscard]] void* allocate_frame(std::size_t size);
void free_frame(void* frame, std::size_t size) noexcept;

}  // namespace holdfast::runtime
