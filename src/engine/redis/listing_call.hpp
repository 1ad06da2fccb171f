#pragma once

#include <algorithm>
#include <holdfast/done.hpp>
#include <memory>
#include <stop_token>
#include <utility>

#include "engine/redis/client.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/script.hpp"

namespace holdfast::redis {

/// A page of a listing, which takes one command after another. `Listing` is such a machine as LockListing;
/// `Shared` what the operations of a backend have in common, a `client` at least.
template <class Shared, class Listing>
class ListingCall final : public Call {
 public:
  ListingCall(std::shared_ptr<Shared> shared, Listing listing, BootTime end, std::stop_token stop,
              Done<typename Listing::Page> done)
      : shared_(std::move(shared)),
        listing_(std::move(listing)),
        end_(end),
        stop_(std::move(stop)),
        done_(std::move(done)) {
    awaited = done_.is_awaited();
    bytes = *listing_.command(By::sha);
    patience = command_timeout();
    set_deadline();
  }

 private:
  void finish(std::unique_ptr<Call> self, Result<Reply> answer) override {
    if (!answer) return done_(answer.error());
    const bool unknown_script = is_noscript(**answer);
    if (!unknown_script) {
      if (const auto taken = listing_.take(**answer, connection()); !taken) return done_(taken.error());
    }
    auto next = listing_.command(unknown_script ? By::text : By::sha);
    if (!next) return done_(std::move(listing_).page());
    bytes = *std::move(next);
    set_deadline();
    auto& client = *shared_->client;
    client.send(std::move(self), stop_);
  }

  /// A long listing may take long; none of its commands may.
  void set_deadline() { deadline = std::min(end_, saturating_add(BootClock::now(), command_timeout())); }
  [[nodiscard]] BootClock::duration command_timeout() const {
    return shared_->client->endpoint().options().command_timeout;
  }

  std::shared_ptr<Shared> shared_;
  Listing listing_;
  BootTime end_;
  std::stop_token stop_;
  Done<typename Listing::Page> done_;
};

template <class Shared, class Listing>
void start_listing(const std::shared_ptr<Shared>& shared, Listing listing, BootTime end,
                   const std::stop_token& stop, Done<typename Listing::Page> done) {
  auto& client = *shared->client;
  client.send(
      std::make_unique<ListingCall<Shared, Listing>>(shared, std::move(listing), end, stop, std::move(done)),
      stop);
}

}  // namespace holdfast::redis
