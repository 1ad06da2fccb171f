#pragma once

#include <chrono>
#include <cstddef>

namespace holdfast::cli::rpc {

// A limit on everything a client can make grow. They are in docs/reference/rpc.md.

/// A task's record fits, whatever is in it: 16 MiB is what a store takes.
inline constexpr std::size_t max_line_bytes = std::size_t{16} * 1024 * 1024;
/// Of one client, being carried out; what comes after is not read until one has finished. Each of them ends
/// by itself, so reading goes on.
inline constexpr std::size_t max_running = 64;
/// Of one client, waiting for something that others decide. Not a matter of reading less: what ends the wait,
/// a cancellation or a release, comes on the same connection. So one more is refused.
inline constexpr std::size_t max_waiting = 1000;
/// Of one client, not yet taken by it: while there is more, nothing is read.
inline constexpr std::size_t max_unwritten_bytes = std::size_t{1024} * 1024;
/// Of one client, of batches that are not complete. Not a matter of reading less either: what completes a
/// batch may come on the same connection. So what comes after in a batch is refused.
inline constexpr std::size_t max_batched_bytes = std::size_t{16} * 1024 * 1024;
/// Renewed locks of one client.
inline constexpr std::size_t max_held = 10'000;
inline constexpr std::size_t max_clients = 200;

/// How long a sidecar that is told to end waits for engines to answer.
inline constexpr std::chrono::seconds time_to_end{10};
/// And for a client to read its last answers.
inline constexpr std::chrono::seconds time_to_read{5};

}  // namespace holdfast::cli::rpc
