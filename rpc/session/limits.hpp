#pragma once

#include <chrono>
#include <cstddef>

namespace holdfast::rpc {

// A limit on everything a client can make grow. They are in docs/reference/rpc.md.

/// A task's record fits in any case: a store accepts 16 MiB.
inline constexpr std::size_t max_line_bytes = std::size_t{16} * 1024 * 1024;
/// Requests of one client that are being carried out. Reading pauses there: each of them ends without the
/// client's help.
inline constexpr std::size_t max_running = 64;
/// Requests of one client that wait for other clients. One more is refused: reading must go on, because what
/// ends the wait, a cancellation or a release, comes on the same connection.
inline constexpr std::size_t max_waiting = 1000;
/// Bytes of answers that one client has not read. Reading pauses there.
inline constexpr std::size_t max_unwritten_bytes = std::size_t{1024} * 1024;
/// Bytes of answers of one client's incomplete batches. Further requests of a batch are refused: reading must
/// go on, because what completes the batch may come on the same connection.
inline constexpr std::size_t max_batched_bytes = std::size_t{16} * 1024 * 1024;
/// Renewed locks of one client.
inline constexpr std::size_t max_held = 10'000;
/// Granted locks whose keys the server remembers. It finds the others by their ids, which takes the store
/// longer.
inline constexpr std::size_t max_granted_keys = 10'000;
/// Jobs of one client.
inline constexpr std::size_t max_jobs = 10'000;
inline constexpr std::size_t max_clients = 200;

/// How long a server that stops waits for engines to answer.
inline constexpr std::chrono::seconds stop_timeout{10};
/// How long it waits for a client to read its last answers.
inline constexpr std::chrono::seconds last_read_timeout{5};

}  // namespace holdfast::rpc
