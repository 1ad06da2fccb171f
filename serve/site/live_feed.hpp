#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <holdfast/clock.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "rpc/session/event.hpp"
#include "view/store_view.hpp"

namespace holdfast::serve {

/// The snapshots of a store as messages of event streams. Each message is made once and shared by all
/// streams; a stream is only a place in the list of messages. So what is kept does not depend on how many
/// clients there are, nor on how slowly they read: a client that falls behind gets the whole again.
///
/// All functions are called on the thread of the executor. The store is read while there is a stream, and for
/// a minute after each call of fresh().
class LiveFeed {
 public:
  using Message = std::shared_ptr<const std::string>;

  LiveFeed(asio::any_io_executor executor, view::StoreView& store);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  /// One client. Ends with the feed, or by itself.
  class Stream {
   public:
    explicit Stream(LiveFeed& feed);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// Returns the next message, when there is one; a heartbeat if there is none for long; null at the end.
    [[nodiscard]] asio::awaitable<Message> next();
    /// Makes next() return null.
    void end();

   private:
    friend class LiveFeed;
    LiveFeed& feed_;
    asio::steady_timer wake_;
    std::optional<std::uint64_t> place_;  ///< of the next message; empty before the first
    bool ended_ = false;
  };

  [[nodiscard]] std::size_t stream_count() const noexcept { return streams_.size(); }

  /// Returns a snapshot that is whole and at most some seconds old; or else, after `timeout`, the last one.
  [[nodiscard]] asio::awaitable<std::shared_ptr<const view::Snapshot>> fresh(
      std::chrono::milliseconds timeout);

  /// Ends all streams.
  void stop();

 private:
  struct Whole {
    std::uint64_t place = 0;  ///< of the first message behind it
    std::chrono::steady_clock::time_point made_at;
    Message message;
  };

  void begin_reading();
  void end_reading_if_unused();
  /// On the reading thread of the store.
  void receive(const std::shared_ptr<const view::Snapshot>& snapshot);
  void publish(const std::shared_ptr<const view::Snapshot>& snapshot);
  void append(std::string message);
  /// The last snapshot as a message, perhaps with messages behind it that bring it up to date.
  [[nodiscard]] const Whole& whole();
  [[nodiscard]] std::uint64_t end_place() const noexcept { return first_place_ + messages_.size(); }

  asio::any_io_executor executor_;
  view::StoreView& store_;
  view::StoreView::Subscription subscription_;
  bool reading_ = false;
  BootTime reading_since_ = {};
  bool stopped_ = false;
  asio::steady_timer linger_;
  bool lingering_ = false;
  std::unordered_set<Stream*> streams_;

  std::shared_ptr<const view::Snapshot> last_;  ///< that messages_ lead to
  std::chrono::steady_clock::time_point last_at_ = {};
  std::deque<Message> messages_;
  std::size_t message_bytes_ = 0;
  std::uint64_t first_place_ = 0;
  std::optional<Whole> whole_;

  std::mutex mutex_;                                ///< of what the two threads share
  std::shared_ptr<const view::Snapshot> received_;  ///< not published yet
  bool posted_ = false;
};

}  // namespace holdfast::serve
