#include "support/peer.hpp"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "runtime/operation.hpp"
#include "support/paths.hpp"
#include "support/peer_protocol.hpp"

namespace holdfast::test {
namespace {

using peer::json;

/// One peer process and the line between us. A lock per question: answers come in order.
class Line {
 public:
  explicit Line(const std::string& url) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = peer_program(), argument = url;
    char* const argv[] = {program.data(), argument.data(), nullptr};
    const int failed = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    socket_ = ends[0];
    if (failed != 0) throw std::runtime_error("cannot start " + program);
  }
  ~Line() {
    ::close(socket_);
    waitpid(pid_, nullptr, 0);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  json ask(const json& question) {
    const std::lock_guard lock(mutex_);
    const std::string text = question.dump() + "\n";
    if (::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
      throw std::runtime_error("the peer is gone");
    }
    std::string line;
    for (char c = 0; ::read(socket_, &c, 1) == 1;) {
      if (c == '\n') return json::parse(line);
      line += c;
    }
    throw std::runtime_error("the peer is gone");
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::mutex mutex_;
};

class PeerWatch final : public Watch {
 public:
  PeerWatch(std::shared_ptr<Line> line, int number) : line_(std::move(line)), number_(number) {}
  ~PeerWatch() override { line_->ask({{"op", "unwatch"}, {"watch", number_}}); }

  void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) override {
    if (woken.is_awaited()) return woken(sleep_until(std::min(look_again_at, deadline), stop));
    // The peer waits without a thread. Here one asks it now and then how that goes.
    line_->ask({{"op", "begin_wait"},
                {"watch", number_},
                {"look_again", peer::to_json(look_again_at)},
                {"deadline", peer::to_json(deadline)}});
    std::thread([line = line_, number = number_, stop = std::move(stop), done = std::move(woken)]() mutable {
      for (bool stopped = false;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        if (!stopped && stop.stop_requested()) {
          line->ask({{"op", "stop_waiting"}, {"watch", number}});
          stopped = true;
        }
        const json ended = line->ask({{"op", "ended"}, {"watch", number}}).at("woken");
        if (!ended.is_null()) return done(ended.get<bool>());
      }
    }).detach();
  }
  void pass_on() noexcept override { line_->ask({{"op", "pass_on"}, {"watch", number_}}); }

 private:
  bool sleep_until(BootTime deadline, const std::stop_token& stop) {
    // The peer does not see our stop token: use repeated short waits.
    while (!stop.stop_requested() && BootClock::now() < deadline) {
      const auto slice = std::min(deadline, BootClock::now() + std::chrono::milliseconds(20));
      if (line_->ask({{"op", "wait"}, {"watch", number_}, {"until", peer::to_json(slice)}}).at("woken"))
        return true;
    }
    return false;
  }

  std::shared_ptr<Line> line_;
  int number_;
};

class PeerBackend final : public LockBackend {
 public:
  explicit PeerBackend(const std::string& url) : line_(std::make_shared<Line>(url)) {}

  [[nodiscard]] Capabilities capabilities() const noexcept override { return {.backend = "peer"}; }
  [[nodiscard]] std::string authority() const override {
    return line_->ask({{"op", "authority"}}).at("authority");
  }

  void submit(AcquireRequest request, std::stop_token stop, Done<AcquireOutcome> done) override {
    ask<AcquireOutcome>(request.deadline, stop, std::move(done),
                        {{"op", "acquire"},
                         {"id", request.id.str()},
                         {"key", peer::to_json(request.key)},
                         {"ttl", request.ttl.length().count()},
                         {"durability", static_cast<int>(request.durability)},
                         {"deadline", peer::to_json(request.deadline)},
                         {"holder", peer::to_json(request.holder.get())}},
                        [](const json& answer) -> AcquireOutcome {
                          if (answer.contains("fence")) {
                            return Granted{
                                Fence::of(answer.at("fence").get<std::uint64_t>()).value_or_throw(),
                                from_ms(answer.at("expires"))};
                          }
                          auto holder = peer::to_holder(answer.at("holder"));
                          if (answer.at("free_in").is_null()) {
                            return Refused{.free_in = std::nullopt, .holder = std::move(holder)};
                          }
                          return Refused{std::chrono::milliseconds(answer.at("free_in").get<std::int64_t>()),
                                         std::move(holder)};
                        });
  }

  void submit(ReleaseRequest request, std::stop_token stop, Done<ReleaseOutcome> done) override {
    ask<ReleaseOutcome>(request.deadline, stop, std::move(done),
                        {{"op", "release"},
                         {"lock", peer::to_json(request.lock)},
                         {"durability", static_cast<int>(request.durability)},
                         {"deadline", peer::to_json(request.deadline)}},
                        [](const json& answer) -> ReleaseOutcome {
                          if (answer.contains("absence"))
                            return static_cast<Absence>(answer.at("absence").get<int>());
                          return Released{};
                        });
  }

  void submit(ExtendRequest request, std::stop_token stop, Done<ExtendOutcome> done) override {
    json question{{"op", "extend"},
                  {"lock", peer::to_json(request.lock)},
                  {"ttl", request.ttl.length().count()},
                  {"durability", static_cast<int>(request.durability)},
                  {"deadline", peer::to_json(request.deadline)}};
    if (request.new_holder) question["new_holder"] = peer::to_json(request.new_holder->get());
    ask<ExtendOutcome>(request.deadline, stop, std::move(done), question,
                       [](const json& answer) -> ExtendOutcome {
                         if (answer.contains("absence"))
                           return static_cast<Absence>(answer.at("absence").get<int>());
                         return Extended{from_ms(answer.at("expires"))};
                       });
  }

  void submit(IsLockedRequest request, std::stop_token stop, Done<bool> done) override {
    ask<bool>(request.deadline, stop, std::move(done),
              {{"op", "is_locked"}, {"key", peer::to_json(request.key)}},
              [](const json& answer) { return answer.at("locked").get<bool>(); });
  }

  void submit(LookupRequest request, std::stop_token stop, Done<std::optional<LockRecord>> done) override {
    json question{{"op", "lookup"}};
    if (const auto* id = std::get_if<LockId>(&request.what)) {
      question["id"] = id->str();
    } else {
      question["key"] = peer::to_json(std::get<LockKey>(request.what));
    }
    ask<std::optional<LockRecord>>(request.deadline, stop, std::move(done), question,
                                   [](const json& answer) -> std::optional<LockRecord> {
                                     if (answer.at("record").is_null()) return std::nullopt;
                                     return peer::to_record(answer.at("record"));
                                   });
  }

  void submit(ListRequest request, std::stop_token stop, Done<LockPage> done) override {
    json only = json::array();
    for (const auto& one : request.only) only.push_back(peer::to_json(one));
    ask<LockPage>(request.deadline, stop, std::move(done),
                  {{"op", "list"},
                   {"cursor", peer::bytes_to_hex(request.cursor)},
                   {"limit", request.limit},
                   {"only", only}},
                  [](const json& answer) {
                    LockPage page{.locks = {}, .cursor = peer::hex_to_bytes(answer.at("cursor"))};
                    for (const auto& record : answer.at("locks"))
                      page.locks.push_back(peer::to_record(record));
                    return page;
                  });
  }

  void submit(WaitersRequest request, std::stop_token stop, Done<WaiterCounts> done) override {
    json keys = json::array();
    for (const auto& one : request.keys) keys.push_back(peer::to_json(one));
    ask<WaiterCounts>(
        request.deadline, stop, std::move(done), {{"op", "waiters"}, {"keys", keys}}, [](const json& answer) {
          WaiterCounts counts;
          for (const auto& count : answer.at("waiters")) {
            counts.push_back(count.is_null() ? std::nullopt : std::optional(count.get<std::uint32_t>()));
          }
          return counts;
        });
  }

  /// No feed: a test of it needs no other process than its own.
  void submit(FollowLocks, std::stop_token, Done<std::unique_ptr<ChangeFeed>> done) override {
    done(std::unique_ptr<ChangeFeed>());
  }

  void submit(WatchRequest request, std::stop_token, Done<std::unique_ptr<Watch>> done) override {
    const int number = ++watches_;
    line_->ask({{"op", "watch"}, {"watch", number}, {"key", peer::to_json(request.key)}});
    done(std::make_unique<PeerWatch>(line_, number));
  }

 private:
  template <class T, class Read>
  void ask(BootTime deadline, const std::stop_token& stop, Done<T> done, const json& question, Read read) {
    if (auto refused = runtime::refuse_before_start(deadline, stop)) return done(*refused);
    const json answer = line_->ask(question);
    if (answer.contains("error")) return done(peer::to_error(answer));
    done(Result<T>(read(answer)));
  }

  std::shared_ptr<Line> line_;
  std::atomic<int> watches_{0};
};

}  // namespace

std::shared_ptr<LockBackend> open_in_another_process(const std::string& url) {
  return std::make_shared<PeerBackend>(url);
}

}  // namespace holdfast::test
