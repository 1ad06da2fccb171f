#include <sqlite3.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "program.hpp"
#include "support/fake_redis.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

/// Signals that come while there is no lock yet, to a store that does not answer. Their commands would wait
/// for a minute; the test's own patience is 20 s.
class SignalsBeforeALock : public CliTest {
 protected:
  [[nodiscard]] static std::string url_of(const FakeRedis& redis) {
    return "redis://127.0.0.1:" + std::to_string(redis.port()) + "?connect_timeout=60s&command_timeout=60s";
  }
  [[nodiscard]] static std::size_t scripts_heard(const FakeRedis& redis) {
    const auto heard = redis.heard();
    return static_cast<std::size_t>(
        std::ranges::count_if(heard, [](const auto& words) { return words.at(0) == "EVALSHA"; }));
  }
};

TEST_F(SignalsBeforeALock, EndTheOpeningOfAStoreAtOnce) {
  const FakeRedis silent([](const auto&) { return FakeRedis::Answer{}; });
  for (const int signal : {SIGTERM, SIGINT}) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"run", "k", "--", "true"},
                                                    {"lock", "acquire", "k"},
                                                    {"task", "run", "--", "true"},
                                                    {"task", "work", "q", "--", "true"}}) {
      std::vector<std::string> words{"--url", url_of(silent)};
      words.insert(words.end(), command.begin(), command.end());
      const auto before = silent.heard().size();
      auto program = start(words);
      ASSERT_TRUE(eventually([&] { return silent.heard().size() > before; }));
      program->signal(signal);
      EXPECT_EQ(program->wait().code, 128 + signal) << command.front();
    }
  }
}

TEST_F(SignalsBeforeALock, EndTheFirstAttemptAndReleaseWhatItMayHaveGot) {
  const FakeRedis silent([](const auto& words) {
    if (words.at(0) == "GET") return FakeRedis::Answer{FakeRedis::bulk("the-authority")};
    return words.at(0) == "EVALSHA" ? FakeRedis::Answer{} : FakeRedis::politely(words);
  });
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "k", "--", "true"}, {"lock", "acquire", "k"}}) {
    std::vector<std::string> words{"--url", url_of(silent)};
    words.insert(words.end(), command.begin(), command.end());
    const auto before = scripts_heard(silent);
    auto program = start(words);
    ASSERT_TRUE(eventually([&] { return scripts_heard(silent) > before; }));
    program->signal(SIGTERM);
    EXPECT_EQ(program->wait().code, 128 + SIGTERM) << command.front();
    EXPECT_GE(scripts_heard(silent), before + 2) << "no release was sent";
  }
}

TEST_F(SignalsBeforeALock, EndTheWaitForOtherWritersOfTheFile) {
  ASSERT_EQ(holdfast({"run", "k", "--", "true"}).code, 0);
  sqlite3* writer = nullptr;
  ASSERT_EQ(sqlite3_open(file("locks.db").c_str(), &writer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(writer, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto started = std::chrono::steady_clock::now();
  auto program = start({"run", "k", "--", "true"});
  program->wait_until_it_handles(SIGTERM);
  std::this_thread::sleep_for(100ms);  // it waits for the writer by now, most likely
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 4s) << "the busy timeout is 5 s";
  sqlite3_close(writer);
}

}  // namespace
}  // namespace holdfast::test
