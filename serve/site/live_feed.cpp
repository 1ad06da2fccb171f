#include "serve/site/live_feed.hpp"

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <utility>

#include "serve/content/snapshot_json.hpp"
#include "serve/http/limits.hpp"

namespace holdfast::serve {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Beyond this, the oldest messages go; streams that still need them get the whole again.
constexpr std::size_t max_kept_bytes = std::size_t{8} * 1024 * 1024;
constexpr std::size_t max_kept_messages = 256;
/// A whole is made again rather than sent with more than this behind it.
constexpr std::size_t max_messages_behind = 8;
constexpr auto max_age_of_whole = 1s;
/// Snapshots in which nothing changed are published this often: they say how old the data is.
constexpr auto quiet_interval = 1s;
/// For requests that do not follow the events: a scraper that comes every 30 seconds finds current data.
constexpr auto linger_time = 60s;

std::string framed(std::string_view kind, const std::string& json) {
  std::string message;
  message.reserve(json.size() + 64);
  return message.append("event: ").append(kind).append("\ndata: ").append(json).append("\n\n");
}

bool nothing_changed(const view::Snapshot& before, const view::Snapshot& after) {
  return before.locks == after.locks && before.tasks == after.tasks && before.queues == after.queues &&
         before.queues_known() == after.queues_known() && before.events == after.events &&
         before.reachability == after.reachability && before.tasks_refused == after.tasks_refused &&
         before.queues_refused == after.queues_refused && before.whole == after.whole &&
         before.tasks_by_status == after.tasks_by_status && before.lock_count() == after.lock_count();
}

bool is_fresh(const view::Snapshot& snapshot, BootTime reading_since) {
  // As fresh as it can be, unless it is from before: the store may be back since.
  if (snapshot.reachability == view::Reachability::down) return snapshot.made_at >= reading_since;
  // Rows are as old as the round that read them: a large store is never fresher than that.
  return snapshot.whole && snapshot.age(BootClock::now()) <= view::Snapshot::fresh_age + 2 * snapshot.round;
}

}  // namespace

LiveFeed::LiveFeed(asio::any_io_executor executor, view::StoreView& store)
    : executor_(std::move(executor)), store_(store), linger_(executor_) {}

LiveFeed::~LiveFeed() {
  subscription_ = {};
}

void LiveFeed::begin_reading() {
  if (reading_ || stopped_) return;
  reading_since_ = BootClock::now();
  subscription_ =
      store_.subscribe([this](const std::shared_ptr<const view::Snapshot>& snapshot) { receive(snapshot); });
  reading_ = true;
}

void LiveFeed::end_reading_if_unused() {
  if (!reading_ || lingering_ || !streams_.empty()) return;
  subscription_ = {};
  reading_ = false;
  // What comes later has no connection to these.
  first_place_ = end_place();
  messages_.clear();
  message_bytes_ = 0;
  whole_.reset();
  last_.reset();
  const std::scoped_lock lock(mutex_);
  received_.reset();
}

void LiveFeed::receive(const std::shared_ptr<const view::Snapshot>& snapshot) {
  {
    const std::scoped_lock lock(mutex_);
    received_ = snapshot;
    if (std::exchange(posted_, true)) return;
  }
  asio::post(executor_, [this] {
    std::shared_ptr<const view::Snapshot> newest;
    {
      const std::scoped_lock lock(mutex_);
      posted_ = false;
      newest = std::exchange(received_, nullptr);
    }
    if (newest && reading_) publish(newest);
  });
}

void LiveFeed::publish(const std::shared_ptr<const view::Snapshot>& snapshot) {
  const auto now = Clock::now();
  if (last_ && nothing_changed(*last_, *snapshot) && now - last_at_ < quiet_interval) return;
  if (last_ && !streams_.empty())
    append(framed("changes", changes_json(*last_, *snapshot, BootClock::now())));
  if (!last_ || streams_.empty()) whole_.reset();
  last_ = snapshot;
  last_at_ = now;
  for (auto* stream : streams_) stream->wake_.cancel();
}

void LiveFeed::append(std::string message) {
  message_bytes_ += message.size();
  messages_.push_back(std::make_shared<const std::string>(std::move(message)));
  while (messages_.size() > 1 && (messages_.size() > max_kept_messages || message_bytes_ > max_kept_bytes)) {
    message_bytes_ -= messages_.front()->size();
    messages_.pop_front();
    ++first_place_;
  }
}

const LiveFeed::Whole& LiveFeed::whole() {
  const auto now = Clock::now();
  const bool usable = whole_ && whole_->place >= first_place_ &&
                      end_place() - whole_->place <= max_messages_behind &&
                      now - whole_->made_at <= max_age_of_whole;
  if (!usable) {
    whole_ = Whole{.place = end_place(),
                   .made_at = now,
                   .message = std::make_shared<const std::string>(
                       framed("snapshot", whole_json(*last_, BootClock::now())))};
  }
  return *whole_;
}

asio::awaitable<std::shared_ptr<const view::Snapshot>> LiveFeed::fresh(std::chrono::milliseconds timeout) {
  lingering_ = true;
  linger_.expires_after(linger_time);
  linger_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    lingering_ = false;
    end_reading_if_unused();
  });
  begin_reading();
  const auto deadline = Clock::now() + timeout;
  asio::steady_timer timer(executor_);
  // The snapshot before begin_reading() may be an old one; its age says so.
  while (!stopped_ && !is_fresh(*store_.latest(), reading_since_) && Clock::now() < deadline) {
    timer.expires_after(50ms);
    asio::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return store_.latest();
}

void LiveFeed::stop() {
  stopped_ = true;
  lingering_ = false;
  linger_.cancel();
  for (auto* stream : streams_) stream->end();
  subscription_ = {};
  reading_ = false;
}

LiveFeed::Stream::Stream(LiveFeed& feed) : feed_(feed), wake_(feed.executor_), ended_(feed.stopped_) {
  feed_.streams_.insert(this);
  feed_.begin_reading();
}

LiveFeed::Stream::~Stream() {
  feed_.streams_.erase(this);
  feed_.end_reading_if_unused();
}

void LiveFeed::Stream::end() {
  ended_ = true;
  wake_.cancel();
}

asio::awaitable<LiveFeed::Message> LiveFeed::Stream::next() {
  const auto heartbeat = Clock::now() + heartbeat_interval;
  while (!ended_) {
    if (feed_.last_ && (!place_ || *place_ < feed_.first_place_)) {
      const auto& whole = feed_.whole();
      place_ = whole.place;
      co_return whole.message;
    }
    if (place_ && *place_ < feed_.end_place()) {
      const auto index = static_cast<std::size_t>((*place_)++ - feed_.first_place_);
      co_return feed_.messages_[index];
    }
    if (Clock::now() >= heartbeat) {
      static const auto beat = std::make_shared<const std::string>("event: beat\ndata: {}\n\n");
      co_return beat;
    }
    wake_.expires_at(heartbeat);
    asio::error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return nullptr;
}

}  // namespace holdfast::serve
