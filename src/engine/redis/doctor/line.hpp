#pragma once

#include <algorithm>
#include <memory>

#include "engine/redis/client.hpp"

namespace holdfast::redis {

/// A line to a server for questions, one at a time.
class Line {
 public:
  explicit Line(const std::shared_ptr<const Endpoint>& endpoint) : client_(Client::make(endpoint)) {}
  ~Line() { client_->close(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// The answer, errors of the server's included. Throws Error if there is none.
  Reply ask_bytes(std::string bytes) {
    const auto& options = client_->endpoint().options();
    const auto deadline =
        saturating_add(BootClock::now(), std::max(options.command_timeout, options.connect_timeout));
    return client_->call_bytes(std::move(bytes), deadline, true).value_or_throw();
  }
  Reply ask(Command command) { return ask_bytes(std::move(command).bytes()); }

 private:
  std::shared_ptr<Client> client_;
};

}  // namespace holdfast::redis
