// Pairs of acquire and release on one server or on a cluster: what routing costs, and what more masters
// bring.
//
//   redis_cluster pairs N URL        N blocking pairs and nothing else: for strace -c and callgrind
//   redis_cluster load SECONDS URL... pairs on all stores at once, without waiting threads; a URL for each
//                                     lock prefix, whose hash tag chooses its master

#include <atomic>
#include <chrono>
#include <holdfast/lock_backend.hpp>
#include <holdfast/redis.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using holdfast::LockId;
using holdfast::LockKey;
using holdfast::Result;
using holdfast::Ttl;

std::shared_ptr<holdfast::LockBackend> open_backend(const std::string& url) {
  return holdfast::make_redis_lock_backend(holdfast::parse_redis_url(url).value_or_throw()).value_or_throw();
}

template <class Request>
void blocking(holdfast::LockBackend& backend, Request request) {
  holdfast::Slot<typename Request::Outcome> slot;
  backend.submit(std::move(request), {}, holdfast::Done<typename Request::Outcome>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  (void)std::move(*slot.result).value_or_throw();
}

void blocking_pairs(holdfast::LockBackend& backend, int pairs) {
  const auto key = LockKey::parse("bench").value_or_throw();
  const auto ttl = Ttl::of(60s).value_or_throw();
  for (int i = 0; i < pairs; ++i) {
    const auto id = LockId::generate();
    blocking(backend, holdfast::AcquireRequest{.id = id, .key = key, .ttl = ttl});
    blocking(backend, holdfast::ReleaseRequest{.lock = {.id = id, .key = key}});
  }
}

/// One lock that is acquired and released, again and again, by completions.
class Chain {
 public:
  Chain(std::shared_ptr<holdfast::LockBackend> backend, int number, std::atomic<bool>& stop,
        std::atomic<std::uint64_t>& pairs, std::atomic<int>& running)
      : backend_(std::move(backend)),
        key_(LockKey::parse("bench" + std::to_string(number)).value_or_throw()),
        stop_(stop),
        pairs_(pairs),
        running_(running) {}

  void acquire() {
    id_ = LockId::generate();
    backend_->submit(holdfast::AcquireRequest{.id = id_, .key = key_, .ttl = ttl_}, {},
                     [this](const Result<holdfast::AcquireOutcome>& outcome) {
                       if (!outcome) failed_ = true;
                       release();
                     });
  }

 private:
  void release() {
    backend_->submit(holdfast::ReleaseRequest{.lock = {.id = id_, .key = key_}}, {},
                     [this](const Result<holdfast::ReleaseOutcome>& outcome) {
                       if (!outcome) failed_ = true;
                       ++pairs_;
                       if (stop_ || failed_) {
                         --running_;
                       } else {
                         acquire();
                       }
                     });
  }

  std::shared_ptr<holdfast::LockBackend> backend_;
  LockId id_ = LockId::generate();
  LockKey key_;
  Ttl ttl_ = Ttl::of(60s).value_or_throw();
  bool failed_ = false;
  std::atomic<bool>& stop_;
  std::atomic<std::uint64_t>& pairs_;
  std::atomic<int>& running_;
};

void load(std::chrono::seconds length, const std::vector<std::string>& urls) {
  constexpr int chains_per_store = 64;
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> pairs = 0;
  std::atomic<int> running = 0;
  std::vector<std::unique_ptr<Chain>> chains;
  for (const auto& url : urls) {
    const auto backend = open_backend(url);
    for (int i = 0; i < chains_per_store; ++i) {
      chains.push_back(std::make_unique<Chain>(backend, i, stop, pairs, running));
    }
  }
  running = static_cast<int>(chains.size());
  for (const auto& chain : chains) chain->acquire();
  std::this_thread::sleep_for(1s);
  const auto before = pairs.load();
  std::this_thread::sleep_for(length);
  const auto counted = pairs.load() - before;
  stop = true;
  while (running > 0) std::this_thread::sleep_for(1ms);
  std::cout << counted / static_cast<std::uint64_t>(length.count()) << " pairs/s on " << urls.size()
            << " stores\n";
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 3 && words[0] == "pairs") {
    blocking_pairs(*open_backend(words[2]), std::stoi(words[1]));
  } else if (words.size() >= 3 && words[0] == "load") {
    load(std::chrono::seconds(std::stoi(words[1])), {words.begin() + 2, words.end()});
  } else {
    std::cerr << "usage: redis_cluster pairs N URL | redis_cluster load SECONDS URL...\n";
    return 64;
  }
}
