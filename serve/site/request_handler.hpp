#pragma once

#include <asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <string>

#include "serve/http/request.hpp"
#include "serve/http/response.hpp"

namespace holdfast::serve {

class LiveFeed;

/// Answers the requests of a listener, on the listener's thread. Also for trees above this one.
class RequestHandler {
 public:
  struct Answer {
    Response response;
    /// The request was for the events of feed(): the response is not used.
    bool event_stream = false;
    /// Asked now and then while the events are sent: false ends them. Empty if nothing does.
    std::function<bool()> still_allowed = {};
  };

  RequestHandler() = default;
  RequestHandler(const RequestHandler&) = delete;
  RequestHandler& operator=(const RequestHandler&) = delete;
  virtual ~RequestHandler() = default;

  /// `peer`: the client, for the log. Never throws.
  [[nodiscard]] virtual asio::awaitable<Answer> answer(Request request, std::string peer) = 0;
  /// Null if no answer is an event stream.
  [[nodiscard]] virtual LiveFeed* feed() noexcept { return nullptr; }
  /// Called when the number of open connections has changed.
  virtual void set_connection_count(std::size_t /*count*/) noexcept {}
};

}  // namespace holdfast::serve
