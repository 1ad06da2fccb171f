#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <holdfast/clock.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/redis/conn/slot.hpp"
#include "engine/redis/wire/command.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {

/// The subscriptions of one connection: what to send, what each reply means, and when silence is suspicious.
/// It gets events and times; it has no mutex, no clock and no I/O.
///
/// `Waiters` wait for the messages of one channel. They have four functions:
/// - `set_silent(silent)`: whether messages may be missed, because the subscription is not confirmed. True at
///   first.
/// - `hear(channel, payload)`: a message arrived.
/// - `wake()`: one may have been missed.
/// - `settle()`: the server has confirmed or refused the subscription.
///
/// A sharded channel belongs to the server that has its slot. Another one refuses it, and a server that loses
/// the slot ends the subscription: take_unserved() gives such topics away, to the connection that serves
/// them.
template <class Waiters>
class Subscriptions {
 public:
  class Topic {
   public:
    template <class... Arguments>
    explicit Topic(Arguments&&... arguments) : waiters(std::forward<Arguments>(arguments)...) {}

    Waiters waiters;

    /// Whether the server has confirmed or refused it, on this connection.
    [[nodiscard]] bool settled() const noexcept { return confirmed_ || refused_; }
    [[nodiscard]] bool refused() const noexcept { return refused_; }
    /// Its waiters begin to rely on it. If it is not confirmed yet, they miss messages until it is.
    void begin_use() noexcept { missed_ |= !confirmed_; }

   private:
    friend class Subscriptions;
    std::uint64_t asked_ = 0;  ///< the number of its SUBSCRIBE; 0: none yet
    bool confirmed_ = false;
    bool missed_ = false;  ///< a message may have been missed since a waiter last tried
    bool refused_ = false;
    bool is_pattern_ = false;
    BootTime unwatched_since_ = never;
  };
  using Topics = std::map<std::string, Topic, std::less<>>;
  /// Valid until the topic is dropped, also while it moves to another connection.
  using Place = typename Topics::value_type*;
  using Moving = typename Topics::node_type;

  /// What a reply was.
  enum class ReplyKind : std::uint8_t {
    message,
    answer,
    refusal,     ///< the reply is an error: waiters of a channel poll
    unexpected,  ///< the connection must be given up
  };

  explicit Subscriptions(std::chrono::milliseconds command_timeout,
                         Channels channels = Channels::global) noexcept
      : command_timeout_(command_timeout), words_(channels == Channels::sharded ? sharded : global) {}

  [[nodiscard]] bool empty() const noexcept { return topics_.empty(); }
  [[nodiscard]] bool contains(std::string_view channel) const { return topics_.contains(channel); }
  /// The waiters of this channel; null if it is not a topic.
  [[nodiscard]] Waiters* waiters_of(std::string_view channel) {
    const auto topic = topics_.find(channel);
    return topic == topics_.end() ? nullptr : &topic->second.waiters;
  }

  /// The topic of the channel, and whether it is new. It stays until a while after `unwatch`. A new one
  /// constructs its waiters from the arguments.
  template <class... Arguments>
  std::pair<Place, bool> watch(const std::string& channel, Arguments&&... arguments) {
    const auto [topic, is_new] = topics_.try_emplace(channel, std::forward<Arguments>(arguments)...);
    topic->second.unwatched_since_ = never;
    if (is_new && connected_) unasked_.push_back(channel);
    return {&*topic, is_new};
  }
  /// The same for all channels that match a pattern, which must not be the name of a channel.
  template <class... Arguments>
  std::pair<Place, bool> watch_pattern(const std::string& pattern, Arguments&&... arguments) {
    const auto watched = watch(pattern, std::forward<Arguments>(arguments)...);
    watched.first->second.is_pattern_ = true;
    return watched;
  }
  /// No waiter is left.
  void unwatch(Place topic, BootTime now) {
    topic->second.unwatched_since_ = now;
    unwatched_.emplace_back(now, topic->first);
  }

  /// Takes the topics that this connection does not serve, because the server refused them or there is no
  /// connection, and that belong elsewhere according to `elsewhere(channel)`. Asks again for the other
  /// refused ones.
  template <class Elsewhere>
  [[nodiscard]] std::vector<Moving> take_unserved(Elsewhere elsewhere) {
    std::vector<Moving> taken;
    for (auto at = topics_.begin(); at != topics_.end();) {
      const auto here = at++;
      auto& topic = here->second;
      if (topic.confirmed_ || (connected_ && !topic.refused_)) continue;
      if (elsewhere(here->first)) {
        topic.asked_ = 0;
        topic.refused_ = false;
        topic.missed_ = true;
        taken.push_back(topics_.extract(here));
      } else if (connected_) {
        topic.asked_ = 0;
        topic.refused_ =
            false;  // not again before the answer: it would be taken for that of an earlier question
        unasked_.push_back(here->first);
      }
    }
    return taken;
  }
  /// Adds a topic of another connection. Requires that this one has no topic of that channel.
  Place add(Moving topic) {
    auto& added = *topics_.insert(std::move(topic)).position;
    if (connected_) unasked_.push_back(added.first);
    if (added.second.unwatched_since_ != never)
      unwatched_.emplace_back(added.second.unwatched_since_, added.first);
    return &added;
  }

  /// There is a new connection. Requires that there is none.
  void connected(BootTime now) {
    connected_ = true;
    quiet_since_ = now;
    for (const auto& [channel, topic] : topics_) unasked_.push_back(channel);
  }
  /// The connection is gone: all are subscribed anew on the next one, and each confirmation then counts as a
  /// message.
  void disconnected() {
    connected_ = false;
    out_.clear();
    unasked_.clear();
    unanswered_.clear();
    for (auto& [channel, topic] : topics_) {
      topic.asked_ = 0;
      topic.confirmed_ = topic.refused_ = false;
      topic.missed_ = true;
      topic.waiters.set_silent(true);
    }
  }

  /// Subscribes new topics, drops those that were not watched for a while, and probes a silent connection.
  void ask(BootTime now) {
    drop_unwatched(now);
    for (const auto& channel : std::exchange(unasked_, {})) {
      const auto topic = topics_.find(channel);
      if (topic == topics_.end() || topic->second.asked_ != 0) continue;
      topic->second.asked_ = ++last_asked_;
      subscribe(*topic, {.number = last_asked_, .channel = channel, .asked_at = now});
    }
    if (connected_ && unanswered_.empty() && now >= due()) probe(now);
  }

  /// The bytes to write next; none if it is empty.
  [[nodiscard]] std::string_view output() const noexcept { return out_; }
  void accepted(std::size_t count) { out_.erase(0, count); }

  /// Input arrived: the connection lives.
  void received(BootTime now) noexcept { quiet_since_ = now; }
  [[nodiscard]] ReplyKind take(const redisReply& reply) {
    const auto parts = elements_of(reply);
    if (parts.size() == 3 && text_of(*parts[0]) == words_.message) {
      const auto topic = topics_.find(text_of(*parts[1]));
      if (topic != topics_.end()) topic->second.waiters.hear(text_of(*parts[1]), text_of(*parts[2]));
      return ReplyKind::message;
    }
    if (parts.size() == 4 && text_of(*parts[0]) == "pmessage") {
      const auto topic = topics_.find(text_of(*parts[1]));
      if (topic != topics_.end()) topic->second.waiters.hear(text_of(*parts[2]), text_of(*parts[3]));
      return ReplyKind::message;
    }
    if (parts.size() == 3 && text_of(*parts[0]) == words_.unsubscribed && !is_answer(text_of(*parts[1]))) {
      lose_slot_of(text_of(*parts[1]));
      return ReplyKind::message;
    }
    if (unanswered_.empty()) return ReplyKind::unexpected;
    const auto question = std::move(unanswered_.front());
    unanswered_.pop_front();
    if (is_error(reply)) {
      settle(question, false);
      return question.is_pattern ? ReplyKind::answer : ReplyKind::refusal;
    }
    if (parts.size() != 3) return ReplyKind::unexpected;
    const auto kind = text_of(*parts[0]);
    if (kind == words_.subscribed || kind == "psubscribe") settle(question, true);
    return ReplyKind::answer;
  }

  /// When to `ask` without an event, or to check `overdue`. Requires a connection.
  [[nodiscard]] BootTime due() const noexcept {
    if (unanswered_.empty()) return quiet_since_ + std::min(longest_silence, command_timeout_);
    return std::max(quiet_since_, unanswered_.front().asked_at) + command_timeout_;
  }
  /// Whether an answer is missing for so long that the connection must be given up. Its owner should read the
  /// connection first: an answer that is unread is not missing.
  [[nodiscard]] bool overdue(BootTime now) const noexcept { return !unanswered_.empty() && now >= due(); }

 private:
  /// A topic without watches stays subscribed for this long: a key is often waited for again.
  static constexpr BootClock::duration linger = std::chrono::seconds(1);
  /// The server is probed after this much silence, or sooner if the command timeout is shorter.
  static constexpr std::chrono::milliseconds longest_silence = std::chrono::seconds(1);

  struct Words {
    CommandName subscribe, unsubscribe;
    std::string_view subscribed, unsubscribed, message;
  };
  static constexpr Words global{.subscribe = "SUBSCRIBE",
                                .unsubscribe = "UNSUBSCRIBE",
                                .subscribed = "subscribe",
                                .unsubscribed = "unsubscribe",
                                .message = "message"};
  static constexpr Words sharded{.subscribe = "SSUBSCRIBE",
                                 .unsubscribe = "SUNSUBSCRIBE",
                                 .subscribed = "ssubscribe",
                                 .unsubscribed = "sunsubscribe",
                                 .message = "smessage"};

  /// A command that was sent.
  struct Question {
    std::uint64_t number = 0;  ///< of a topic's first SUBSCRIBE; 0 for the rest
    std::string channel = {};
    bool is_pattern = false;
    BootTime asked_at;
    bool is_end = false;  ///< of a subscription
  };

  void queue_command(const Command& command, Question question) {
    out_ += command.bytes();
    unanswered_.push_back(std::move(question));
  }

  void subscribe(const typename Topics::value_type& topic, Question question) {
    question.is_pattern = topic.second.is_pattern_;
    if (question.is_pattern) {
      queue_command({"PSUBSCRIBE", topic.first}, std::move(question));
    } else {
      queue_command({words_.subscribe, topic.first}, std::move(question));
    }
  }

  void drop_unwatched(BootTime now) {
    for (; !unwatched_.empty(); unwatched_.pop_front()) {
      const auto& [since, channel] = unwatched_.front();
      if (now - since < linger) return;
      const auto topic = topics_.find(channel);
      // Otherwise it was watched since; if it was left again, the queue has another entry for it.
      if (topic == topics_.end() || topic->second.unwatched_since_ != since) continue;
      if (topic->second.asked_ != 0 && topic->second.is_pattern_) {
        queue_command({"PUNSUBSCRIBE", channel}, {.is_pattern = true, .asked_at = now});
      } else if (topic->second.asked_ != 0) {
        queue_command({words_.unsubscribe, channel}, {.channel = channel, .asked_at = now, .is_end = true});
      }
      topics_.erase(topic);
    }
  }

  /// A subscription is silent while nothing happens, and also when its connection is dead. So a channel is
  /// subscribed again, which changes nothing, needs no further right and must be answered.
  void probe(BootTime now) {
    const auto heard = std::ranges::find_if(topics_, [](const auto& one) { return one.second.confirmed_; });
    if (heard == topics_.end()) {
      quiet_since_ = now;  // no message could have arrived
    } else {
      subscribe(*heard, {.asked_at = now});
    }
  }

  /// Whether the end of this subscription was asked for, and is the next answer.
  [[nodiscard]] bool is_answer(std::string_view ended) const {
    return !unanswered_.empty() && unanswered_.front().is_end && unanswered_.front().channel == ended;
  }

  /// The server has ended the subscription.
  void lose_slot_of(std::string_view channel) {
    const auto at = topics_.find(channel);
    if (at == topics_.end()) return;
    auto& topic = at->second;
    topic.confirmed_ = false;
    topic.refused_ = topic.missed_ = true;
    topic.waiters.set_silent(true);
    topic.waiters.wake();
  }

  void settle(const Question& question, bool confirmed) {
    const auto at = topics_.find(question.channel);
    // A topic that was dropped and added again since waits for its own answer. A probe has no number.
    if (question.number == 0 || at == topics_.end() || at->second.asked_ != question.number) return;
    auto& topic = at->second;
    topic.confirmed_ = confirmed;
    topic.refused_ = !confirmed;
    if (confirmed) {
      topic.waiters.set_silent(false);
      if (std::exchange(topic.missed_, false)) topic.waiters.wake();
    }
    topic.waiters.settle();
  }

  const std::chrono::milliseconds command_timeout_;
  const Words& words_;
  Topics topics_;
  bool connected_ = false;
  std::vector<std::string> unasked_;  ///< topics that this connection was not asked for yet
  std::deque<std::pair<BootTime, std::string>> unwatched_;  ///< topics without watches, and since when
  std::string out_;
  std::deque<Question> unanswered_;  ///< in order
  BootTime quiet_since_{};           ///< when input last came, or could first have come
  std::uint64_t last_asked_ = 0;
};

}  // namespace holdfast::redis
