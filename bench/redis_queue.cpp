// Queues in Redis, in one run, interleaved: whether a create, a claim and an end cost the server the same for
// any number of ready, finished and parked tasks.
//
//   redis_queue [MOST [PORT]]   on a redis-server of its own; MOST: ready, finished and parked tasks (100000)

#include <hiredis/hiredis.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <holdfast/redis.hpp>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "redis_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::ClaimedRecord;
using holdfast::ClaimNext;
using holdfast::CreateRecord;
using holdfast::EndLease;
using holdfast::PutRecord;
using holdfast::QueueTerms;
using holdfast::RecordData;
using holdfast::RecordKey;
using holdfast::Result;
using holdfast::StorageBackend;

constexpr int in_flight = 256;
constexpr int rounds = 15, calls = 200;
/// A task of a queue as it is stored, and one that has ended.
const std::string task_text =
    R"({"task":{"taskId":"t","status":"working","createdAt":"2026-02-23T10:00:00.000Z",)"
    R"("lastUpdatedAt":"2026-02-23T10:00:00.000Z","ttl":null,"pollInterval":500},"ownerId":"o","variables":{},)"
    R"("result":null,"requestMethod":"tools/call","expiresAt":null})";
const std::string final_text =
    R"({"task":{"taskId":"t","status":"completed","createdAt":"2026-02-23T10:00:00.000Z",)"
    R"("lastUpdatedAt":"2026-02-23T10:00:00.000Z","ttl":3600000,"pollInterval":500},"ownerId":"o","variables":{},)"
    R"("result":null,"requestMethod":"tools/call","expiresAt":"2286-11-20T17:46:39.000Z"})";

RecordKey key_of(const std::string& text) {
  return RecordKey::parse(text).value_or_throw();
}
RecordData data_of(const std::string& text) {
  return RecordData::parse(text).value_or_throw();
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class Request>
typename Request::Outcome ask(StorageBackend& backend, Request request) {
  holdfast::Slot<typename Request::Outcome> slot;
  backend.submit(std::move(request), {}, holdfast::Done<typename Request::Outcome>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  return (*std::move(slot.result)).value_or_throw();
}

CreateRecord creation(const std::string& key, const std::string& limit_key) {
  return {.key = key_of(key),
          .data = data_of(task_text),
          .quota = 10'000'000,
          .queue = QueueTerms{.limit_key = limit_key}};
}

/// Runs `request(i)` for each number below `count`, many at once.
template <class Make>
void run_all(StorageBackend& backend, int count, Make request) {
  using Outcome = typename std::invoke_result_t<Make, int>::Outcome;
  std::atomic<int> next = 0;
  std::latch all(count);
  std::function<void()> go = [&] {
    const int i = next++;
    if (i >= count) return;
    backend.submit(request(i), {}, [&](const Result<Outcome>& outcome) {
      if (!outcome) std::terminate();
      go();
      all.count_down();  // last: then `go` is gone
    });
  };
  for (int i = 0; i < in_flight; ++i) go();
  all.wait();
}

/// The processor time of the server, and the scripts that it ran.
struct Usage {
  double micros = 0;
  long scripts = 0;

  static Usage of(bench::Raw& raw) {
    const auto number = [](const std::string& text, const std::string& name) {
      const auto at = text.find(name);
      return at == std::string::npos ? 0.0 : std::strtod(text.c_str() + at + name.size(), nullptr);
    };
    const auto cpu = raw.call({"INFO", "cpu"});
    const auto stats = raw.call({"INFO", "commandstats"});
    return {.micros = (number(cpu, "used_cpu_sys:") + number(cpu, "used_cpu_user:")) * 1e6,
            .scripts = static_cast<long>(number(stats, "cmdstat_evalsha:calls="))};
  }
};

struct Measured {
  std::string what, owner;
  /// Of the tasks that are measured; empty: none.
  std::string limit_key = {};
  std::vector<double> create = {}, claim = {}, end = {};
  long trips = 0;
};

void measure(StorageBackend& backend, bench::Raw& raw, Measured& queue, int round) {
  const auto timed = [&](std::vector<double>& into, auto call) {
    const auto before = Usage::of(raw);
    for (int i = 0; i < calls; ++i) call(i);
    const auto after = Usage::of(raw);
    into.push_back((after.micros - before.micros) / calls);
    queue.trips += after.scripts - before.scripts;
  };
  std::vector<ClaimedRecord> claimed;
  timed(queue.create, [&](int i) {
    const auto name = "n" + std::to_string(round) + "-" + std::to_string(i);
    // Each under a key of its own: it can be claimed.
    const auto key = queue.limit_key.empty() ? "" : queue.limit_key + name;
    ask(backend, creation(queue.owner + ":" + name, key));
  });
  timed(queue.claim, [&](int) {
    auto found = ask(backend, ClaimNext{.owner = queue.owner, .terms = {.worker = "worker", .lease = 10min}});
    if (found.claimed.size() != 1) throw std::runtime_error("nothing to claim in " + queue.what);
    claimed.push_back(std::move(found.claimed.front()));
  });
  timed(queue.end, [&](int i) {
    const auto& one = claimed[static_cast<std::size_t>(i)];
    EndLease request{
        .key = one.key, .incarnation = one.record.incarnation, .token = one.record.bound_to.value()};
    request.write.emplace(data_of(final_text), holdfast::ExpectedVersion{.version = one.record.version});
    ask(backend, std::move(request));
  });
}

/// The chain of one key: each end makes a parked task ready, which is claimed in the same call.
double chain(StorageBackend& backend, bench::Raw& raw, const std::string& owner, ClaimedRecord& held) {
  const auto before = Usage::of(raw);
  for (int i = 0; i < calls; ++i) {
    EndLease request{
        .key = held.key, .incarnation = held.record.incarnation, .token = held.record.bound_to.value()};
    request.write.emplace(data_of(final_text), holdfast::ExpectedVersion{.version = held.record.version});
    request.then = holdfast::ClaimTerms{.worker = "worker", .lease = 10min};
    auto ended = ask(backend, std::move(request));
    if (!ended.next || ended.next->claimed.size() != 1)
      throw std::runtime_error("no parked task in " + owner);
    held = std::move(ended.next->claimed.front());
  }
  return (Usage::of(raw).micros - before.micros) / calls;
}

ClaimedRecord park(StorageBackend& backend, const std::string& owner, int count) {
  ask(backend, creation(owner + ":held", "customer"));
  auto held = ask(backend, ClaimNext{.owner = owner, .terms = {.worker = "worker", .lease = 10min}});
  run_all(backend, count,
          [&](int i) { return creation(owner + ":parked-" + std::to_string(i), "customer"); });
  return std::move(held.claimed.at(0));
}

void fill(StorageBackend& backend, const std::string& owner, int count) {
  run_all(backend, count, [&](int i) { return creation(owner + ":task-" + std::to_string(i), ""); });
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const bench::Server server(argc > 2 ? std::atoi(argv[2]) : 27431);
  holdfast::RedisOptions options;
  options.port = static_cast<std::uint16_t>(server.port());
  const auto backend = holdfast::make_redis_storage_backend(options).value_or_throw();
  bench::Raw raw(server.port());

  std::vector<Measured> queues;
  for (int ready = 10; ready <= most; ready *= ready == 10 ? 100 : 10) {
    queues.push_back({.what = std::to_string(ready) + " ready", .owner = "ready" + std::to_string(ready)});
    fill(*backend, queues.back().owner, ready);
  }
  const auto many_of = std::to_string(most);
  queues.push_back({.what = many_of + " finished, 10 ready", .owner = "finished"});
  fill(*backend, "finished", most + 10);
  run_all(*backend, most, [](int i) {
    return PutRecord{.key = key_of("finished:task-" + std::to_string(i)),
                     .data = data_of(final_text),
                     .leaves_queue = true};
  });
  queues.push_back({.what = many_of + " parked, 10 ready", .owner = "parked"});
  (void)park(*backend, "parked", most);
  fill(*backend, "parked", 10);
  queues.push_back({.what = "the same, of limit keys", .owner = "keyed", .limit_key = "k"});
  (void)park(*backend, "keyed", most);
  auto few = park(*backend, "few", rounds * calls + 10);
  auto many = park(*backend, "many", most + rounds * calls);

  std::vector<double> chain_of_few, chain_of_many;
  for (int round = 0; round < rounds; ++round) {
    for (auto& queue : queues) measure(*backend, raw, queue, round);
    chain_of_few.push_back(chain(*backend, raw, "few", few));
    chain_of_many.push_back(chain(*backend, raw, "many", many));
  }
  std::printf("processor time of the server, us per call: median of %d rounds of %d calls\n", rounds, calls);
  std::printf("  %-28s %15s %15s %15s   trips per call\n", "queue", "create", "claim", "end");
  for (const auto& queue : queues) {
    std::printf("  %-28s", queue.what.c_str());
    for (const auto values : {&Measured::create, &Measured::claim, &Measured::end}) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < (queue.*values).size(); ++i) {
        ratios.push_back((queue.*values)[i] / (queues[0].*values)[i]);
      }
      std::printf("  %6.1f x%-5.2f", median(queue.*values), median(ratios));
    }
    std::printf("   %.3f\n", static_cast<double>(queue.trips) / (3.0 * rounds * calls));
  }
  std::printf("  an end that lets a parked task go, with its claim: %.1f with few parked, %.1f with %d\n",
              median(chain_of_few), median(chain_of_many), most);
}
