// Three processes; one leads at a time. The leader is killed twice, and each time another candidate takes
// over with a higher fence: the number of its term.
//
//   example_leader [URL]     default: a file of its own
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// What a leader does, until its lock is lost. It announces its term; a real one would send the fence with
/// each write.
void lead(const holdfast::Guard& guard) {
  std::printf("%d %llu\n", static_cast<int>(getpid()),
              static_cast<unsigned long long>(guard.fence().value()));
  std::fflush(stdout);
  while (!guard.lost().stop_requested()) std::this_thread::sleep_for(10ms);
}

/// A candidate: waits, leads, and waits again after a loss. It ends with its process.
int stand_for_election(const std::string& url) {
  const auto hf = holdfast::open(url);
  for (;;) {
    try {
      // A leader that is notified stops within 20 ms: far less than its notice.
      const auto guard =
          hf.locks().lock("leader", {.ttl = 1s, .wait = holdfast::no_time_limit, .notice = 100ms});
      lead(guard);
    } catch (const holdfast::Error& error) {
      if (!error.transient()) throw;
      std::this_thread::sleep_for(100ms);  // the store does not answer: there may be no leader meanwhile
    }
  }
}

/// The candidates' processes, and what their leaders announce.
class Candidates {
 public:
  Candidates(int count, std::string url) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    std::string program = "/proc/self/exe", role = "candidate";
    for (int i = 0; i < count; ++i) {
      char* arguments[] = {program.data(), role.data(), url.data(), nullptr};
      pid_t child = 0;
      if (posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ) != 0) std::abort();
      alive_.push_back(child);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    announcements_ = fdopen(ends[0], "r");
  }
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;
  ~Candidates() {
    while (!alive_.empty()) kill_one(alive_.back());
    std::fclose(announcements_);
  }

  struct Term {
    int leader = 0;
    unsigned long long fence = 0;
  };
  [[nodiscard]] Term next_term() {
    Term term;
    if (std::fscanf(announcements_, "%d %llu", &term.leader, &term.fence) != 2) std::abort();
    return term;
  }
  void kill_one(pid_t candidate) {
    kill(candidate, SIGKILL);
    waitpid(candidate, nullptr, 0);
    std::erase(alive_, candidate);
  }

 private:
  std::vector<pid_t> alive_;
  std::FILE* announcements_ = nullptr;
};

int hold_elections(const std::string& url) {
  Candidates candidates(3, url);
  Candidates::Term before;
  for (int i = 0; i < 3; ++i) {
    const auto term = candidates.next_term();
    std::cout << "process " << term.leader << " leads, term " << term.fence << '\n';
    if (term.leader == before.leader || term.fence <= before.fence) return 1;
    candidates.kill_one(term.leader);  // it cannot release its lock: the next one waits for its ttl
    before = term;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2) return stand_for_election(argv[2]);
  if (argc > 1) return hold_elections(argv[1]);
  std::string directory = std::filesystem::temp_directory_path() / "holdfast-example-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  const int status = hold_elections("sqlite:" + directory + "/locks.db");
  std::filesystem::remove_all(directory);
  return status;
} catch (const holdfast::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
