#pragma once

#include <chrono>
#include <cstddef>

namespace holdfast::serve {

// What one client can make the server keep or wait for.

/// Request line and header fields of one request; also the fields behind its body, and each line between the
/// chunks of it.
inline constexpr std::size_t max_header_bytes = std::size_t{8} * 1024;
/// The largest body that a route accepts: a key, a reason, a token.
inline constexpr std::size_t max_body_bytes = std::size_t{16} * 1024;
/// Open connections; at the limit, the one that has been waiting for its client longest is closed for a new
/// one.
inline constexpr std::size_t max_connections = 512;
/// Event streams among them: a page needs one, and other requests must find room beside them.
inline constexpr std::size_t max_event_streams = 384;
/// Requests that wait for the store at the same time, or for a thread to do so.
inline constexpr std::size_t max_store_requests = 64;

/// For the TLS handshake, and for the whole of a request once its first byte has come.
inline constexpr std::chrono::seconds request_timeout{10};
/// Between two requests on one connection.
inline constexpr std::chrono::seconds idle_timeout{60};
/// For writing one response, or one message of an event stream.
inline constexpr std::chrono::seconds write_timeout{30};
/// For the client to read the last response and close.
inline constexpr std::chrono::seconds linger_timeout{1};
/// An event stream is never silent for longer: a dead client is noticed, and the page notices a dead server.
inline constexpr std::chrono::seconds heartbeat_interval{2};

}  // namespace holdfast::serve
