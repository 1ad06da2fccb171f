// A simulated network under the multiplexer and the reconnecting: it delays, cuts, accepts parts of writes,
// and lets the server read what a cut connection had accepted after what the next one brings. What each call
// is told about itself is compared with what the network did.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "engine/redis/conn/multiplexer.hpp"
#include "engine/redis/conn/reconnect_fsm.hpp"
#include "support/replies.hpp"
#include "support/seeded.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using test::reply_of;
using test::Seeded;

struct SimulatedCall final : Call {
  explicit SimulatedCall(std::uint64_t its_number) : number(its_number) {}
  void finish(std::unique_ptr<Call>, Result<Reply>) override {}
  const std::uint64_t number;
};

class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(Seeded& random) : random_(random) {}

  void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps && !testing::Test::HasFailure(); ++i) step();
    calm_ = true;
    // Every call ends, by an answer or by its deadline.
    for (std::size_t i = 0; i < 100'000 && !live_.empty() && !testing::Test::HasFailure(); ++i) step();
    EXPECT_TRUE(live_.empty());
    EXPECT_FALSE(mux_.has_unsent());
  }
  [[nodiscard]] std::size_t answers() const noexcept { return answers_; }
  [[nodiscard]] std::size_t repeats() const noexcept { return repeats_; }
  [[nodiscard]] std::size_t breaks() const noexcept { return breaks_; }

 private:
  /// What the network knows of a call that has not ended.
  struct Live {
    SimulatedCall* call;
    BootClock::duration answer_timeout;
    bool stopped = false;
    bool accepted_before = false;  ///< a byte of it, by a connection that broke
  };
  /// A command on the current connection.
  struct OnWire {
    std::uint64_t number;
    std::uint64_t first_byte;
    std::uint64_t end;
    BootTime at;
    BootClock::duration answer_timeout;
  };

  bool chance(std::size_t of) { return random_.below(of) == 0; }

  void step() {
    switch (random_.below(calm_ ? 6 : 9)) {
      case 0:
        write();
        break;
      case 1:
        arrive();
        break;
      case 2:
      case 3:
        answer();
        break;
      case 4:
        connect();
        break;
      case 5:
        pass_time();
        break;
      case 6:
        queue();
        break;
      case 7:
        if (chance(8)) stop();
        break;
      default:
        if (connected_ && chance(20)) break_connection();
    }
    finish();
  }

  void queue() {
    if (live_.size() > 12) return;
    const auto number = ++last_number_;
    auto call = std::make_unique<SimulatedCall>(number);
    call->bytes.assign(1 + random_.below(40), 'x');
    call->deadline = chance(3) ? now_ + milliseconds(random_.below(400)) : now_ + 20s;
    call->answer_timeout = milliseconds(20 + random_.below(300));
    call->fail_fast = chance(10);
    live_.emplace(number, Live{.call = call.get(), .answer_timeout = call->answer_timeout});
    mux_.queue(std::move(call));
  }

  void stop() {
    if (live_.empty()) return;
    auto at = live_.begin();
    std::advance(at, random_.below(live_.size()));
    at->second.stopped = true;
    mux_.stop(*at->second.call);
    if (chance(2)) look();
  }

  /// A write takes several steps: others happen between its beginning and its end.
  void write() {
    if (!connected_) return;
    if (!writing_) {
      if (mux_.out_of_room() && chance(2)) mux_.has_room();
      if (!mux_.has_output()) return;
      begin_write();
      return;
    }
    end_write();
  }

  void end_write() {
    writing_ = false;
    const std::size_t count = chance(3) ? random_.below(output_.size() + 1) : output_.size();
    mux_.accepted(count);
    accepted_ += count;
    EXPECT_EQ(mux_.out_of_room(), count == 0);
  }

  void begin_write() {
    const bool is_fresh = accepted_ == composed_;
    output_ = mux_.output(now_);
    writing_ = true;
    ASSERT_FALSE(output_.empty());
    if (!is_fresh) {
      ASSERT_EQ(output_.size(), composed_ - accepted_) << "the rest of what was begun";
      return;
    }
    // All that wait for their turn, in the order they were queued.
    std::size_t left = output_.size();
    for (const auto& [number, live] : live_) {
      const bool is_on_wire = !wire_.empty() && number <= wire_.back().number;
      if (is_on_wire || left == 0) continue;
      const auto size = live.call->bytes.size();
      ASSERT_LE(size, left) << "a call is written whole";
      left -= size;
      EXPECT_EQ(live.call->answer_timeout, live.answer_timeout);
      EXPECT_EQ(live.call->connection(), connections_);
      wire_.push_back({number, composed_, composed_ + size, now_, live.call->answer_timeout});
      composed_ += size;
    }
    ASSERT_EQ(left, 0U) << "bytes of a call that has ended";
  }

  /// The server reads some of what was accepted, and answers each command that it has read.
  void arrive() {
    if (arrived_ < accepted_) arrived_ += 1 + random_.below(accepted_ - arrived_);
    while (answered_ + unread_ < wire_.size() && wire_[answered_ + unread_].end <= arrived_) ++unread_;
  }

  void answer() {
    if (!connected_ || unread_ == 0) return;
    const auto count = 1 + random_.below(unread_);
    std::vector<Reply> replies;
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = wire_[answered_ + i].number;
      const auto took = now_ - wire_[answered_ + i].at;
      round_trip_ = answered_ + i == 0 ? took : std::min(round_trip_, took);
      if (!calm_ && chance(200)) is_replica_ = true;
      replies.push_back(is_replica_ ? refusal() : number_reply(number));
      is_refused_[number] = is_replica_;
    }
    answered_ += count;
    unread_ -= count;
    answered_at_ = now_;
    const auto broken = mux_.take(replies, now_);
    EXPECT_EQ(mux_.demoted(), is_replica_);
    EXPECT_EQ(broken.has_value(), is_replica_ && answered_ == wire_.size());
    reconnect_.answered();
    finish();
    if (broken) break_connection();
  }

  static Reply refusal() { return reply_of("-READONLY You can't write against a read only replica.\r\n"); }
  /// Faster than by a parser. hiredis frees it with free().
  static Reply number_reply(std::uint64_t number) {
    Reply reply(static_cast<redisReply*>(std::calloc(1, sizeof(redisReply))));
    reply->type = REDIS_REPLY_INTEGER;
    reply->integer = static_cast<long long>(number);
    return reply;
  }

  void connect() {
    if (connected_) return;
    switch (reconnect_.next(now_, mux_.has_unsent())) {
      case ReconnectFsm::Next::wait:
        EXPECT_TRUE(!mux_.has_unsent() || now_ < reconnect_.dial_at());
        return;
      case ReconnectFsm::Next::abandon:
        (void)reconnect_.abandoned();
        return;
      default:
        break;
    }
    if (!calm_ && chance(4)) return;  // it takes its time
    if (!calm_ && chance(4)) {
      const Error error(chance(10) ? ErrorCode::AuthFailed : ErrorCode::ServiceUnavailable, "no");
      (void)reconnect_.failed(error, now_, 0.5);
      EXPECT_GT(reconnect_.dial_at(), now_);
      attempt_failed_ = error.code();
      mux_.cannot_connect(error);
      finish();
      for (const auto& [number, live] : live_)
        EXPECT_TRUE(error.transient() && !live.call->fail_fast) << number;
      attempt_failed_.reset();
      return;
    }
    (void)reconnect_.connected();
    EXPECT_FALSE(reconnect_.last_error());
    connected_ = true;
    ++connections_;
    mux_.connected(now_);
    EXPECT_FALSE(mux_.demoted());
  }

  void break_connection() {
    if (writing_) end_write();  // its owner waits for the writer
    ++breaks_;
    for (const auto& sent : wire_) {
      if (sent.number <= last_answered() || sent.first_byte >= accepted_) continue;
      // The server reads it, wholly or not, now or after what the next connection brings.
      const auto at = live_.find(sent.number);
      if (at == live_.end()) continue;
      at->second.accepted_before = true;
      at->second.answer_timeout *= 2;
    }
    mux_.disconnected();
    reconnect_.lost({ErrorCode::ServiceUnavailable, "broken"}, now_, is_replica_, 0.5);
    wire_.clear();
    connected_ = is_replica_ = false;
    composed_ = accepted_ = arrived_ = answered_ = unread_ = 0;
    for (const auto& [number, live] : live_) {
      EXPECT_EQ(live.call->was_repeated(), live.accepted_before) << number;
      EXPECT_EQ(live.call->was_sent(), live.accepted_before) << number;
    }
  }

  [[nodiscard]] std::uint64_t last_answered() const {
    return answered_ == 0 ? 0 : wire_[answered_ - 1].number;
  }

  void pass_time() {
    now_ += milliseconds(random_.below(calm_ ? 500 : 10));
    if (now_ < mux_.look_at()) {
      EXPECT_FALSE(is_overdue());
    } else {
      if (chance(4)) answer();  // the owner reads before it looks
      look();
    }
    check_deadlines();
  }

  /// Whether an answer is missing for longer than its call's answer timeout, and than the link explains.
  [[nodiscard]] bool is_overdue() const {
    const auto by_link = std::min<BootClock::duration>(2 * round_trip_, milliseconds(1000));
    for (std::size_t i = answered_; i < wire_.size(); ++i) {
      const auto answer_timeout = std::max<BootClock::duration>(wire_[i].answer_timeout, by_link);
      if (std::max(wire_[i].at, answered_at_) + answer_timeout <= now_) return true;
    }
    return false;
  }

  void look() {
    const bool overdue = is_overdue();
    std::optional<Error> why;
    if (!connected_) why = reconnect_.last_error();
    const bool suspect = mux_.inspect(now_, why);
    EXPECT_EQ(suspect, overdue);
    finish();
    for (const auto& [number, live] : live_) EXPECT_FALSE(live.stopped) << number;
    if (suspect) break_connection();
  }

  void check_deadlines() {
    for (const auto& [number, live] : live_) EXPECT_GT(live.call->deadline, now_) << number;
  }

  void finish() {
    while (mux_.has_finished()) {
      const auto [call, answer] = mux_.take_finished();
      const auto& ended = static_cast<const SimulatedCall&>(*call);
      const auto at = live_.find(ended.number);
      ASSERT_NE(at, live_.end()) << "ended twice";
      check_end(ended, at->second, answer);
      live_.erase(at);
    }
  }

  void check_end(const SimulatedCall& call, const Live& live, const Result<Reply>& answer) {
    const auto on_wire = std::ranges::find(wire_, call.number, &OnWire::number);
    const bool is_accepted = on_wire != wire_.end() && on_wire->first_byte < accepted_;
    EXPECT_EQ(call.was_repeated(), live.accepted_before);
    EXPECT_EQ(call.was_sent(), live.accepted_before || on_wire != wire_.end() || answer);
    EXPECT_TRUE(call.was_sent() || !is_accepted);
    repeats_ += call.was_repeated() ? 1 : 0;
    if (answer) {
      ++answers_;
      if (is_refused_[call.number]) {
        EXPECT_TRUE(is_error(**answer));
      } else {
        EXPECT_EQ((*answer)->integer, static_cast<long long>(call.number));
      }
      return;
    }
    const auto code = answer.error().code();
    if (call.was_sent()) {
      EXPECT_TRUE(answer.error().transient()) << "it may have been carried out";
    }
    const bool attempt_ended_it =
        attempt_failed_ && (*attempt_failed_ == ErrorCode::AuthFailed || call.fail_fast);
    EXPECT_TRUE(live.stopped || call.deadline <= now_ || attempt_ended_it) << "too early";
    if (code == ErrorCode::Aborted) {
      EXPECT_TRUE(live.stopped && !call.was_sent());
    }
  }

  using milliseconds = std::chrono::milliseconds;

  Seeded& random_;
  Multiplexer mux_{"redis at simulation"};
  ReconnectFsm reconnect_{ReconnectFsm::AfterAnswers::at_once};
  BootTime now_{1h};
  bool calm_ = false;  ///< no more faults, no more calls
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Live> live_;
  std::map<std::uint64_t, bool> is_refused_;
  std::optional<ErrorCode> attempt_failed_;

  // The current connection.
  bool connected_ = false;
  std::uint64_t connections_ = 0;  ///< this one included
  bool is_replica_ = false;
  bool writing_ = false;
  std::string_view output_;
  std::vector<OnWire> wire_;
  std::uint64_t composed_ = 0, accepted_ = 0, arrived_ = 0;  ///< bytes
  std::size_t answered_ = 0;                                 ///< commands of the wire
  std::size_t unread_ = 0;                                   ///< answers to the next ones
  BootTime answered_at_{};
  BootClock::duration
      round_trip_{};  ///< of the fastest answer on this connection; before it, of the last one

  std::size_t answers_ = 0, repeats_ = 0, breaks_ = 0;
};

TEST(RedisConnectionSimulation, EveryCallEndsOnceWithItsOwnAnswerAndTheTruthAboutItself) {
  Seeded random;
  SCOPED_TRACE(random.seed());
  std::size_t answers = 0, repeats = 0, breaks = 0;
  for (int run = 0; run < 200 && !HasFailure(); ++run) {
    SimulatedNetwork network(random);
    network.run(4'000);
    answers += network.answers();
    repeats += network.repeats();
    breaks += network.breaks();
  }
  // The simulation met what it is for.
  EXPECT_GT(answers, 10'000U);
  EXPECT_GT(repeats, 1'000U);
  EXPECT_GT(breaks, 1'000U);
}

}  // namespace
}  // namespace holdfast::redis
