// Jobs of a queue on Redis beside a bare generator of the same scripts, in one run, in turns: what the
// library costs on top of them, and how long a worker that waits takes to have a new job.
//
//   redis_jobs [JOBS [ROUNDS [PORT]]]    on a redis-server of its own; 4000 jobs in each of 9 rounds

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <holdfast/queue_operations.hpp>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bare_redis_queue.hpp"
#include "queue_payload.hpp"
#include "redis_fixture.hpp"
#include "support/tcp_proxy.hpp"

namespace {

using namespace std::chrono_literals;
namespace operation = holdfast::operation;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
double at(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values.at(static_cast<std::size_t>(part * static_cast<double>(values.size() - 1)));
}

/// Adds, many at once: each completion starts the next.
void add_all(const holdfast::Queue& queue, int jobs, int in_flight) {
  if (in_flight == 1) {
    for (int i = 0; i < jobs; ++i) (void)queue.add(bench::new_task());
    return;
  }
  std::atomic<int> left = jobs;
  std::latch added(jobs);
  std::function<void()> one = [&] {
    if (left-- <= 0) return;
    queue.start(operation::AddTask{holdfast::detail::owned(bench::new_task())}, {},
                [&](const holdfast::Result<holdfast::Task>& task) {
                  if (!task) std::terminate();
                  one();
                  added.count_down();  // last: then `one` is gone
                });
  };
  for (int i = 0; i < in_flight; ++i) one();
  added.wait();
}

/// Works until no job is left: each completion ends its job and claims the next one.
void work_on_all(const holdfast::Queue& queue, int in_flight) {
  if (in_flight == 1) {
    for (auto job = queue.claim_next(); job;) job = job->complete_and_claim(bench::result());
    return;
  }
  const auto how = holdfast::detail::owned(holdfast::ClaimOptions{});
  std::latch idle(in_flight);
  using Next = holdfast::Result<std::optional<holdfast::Job>>;
  std::function<void(Next)> one = [&](Next next) {
    if (!next) std::terminate();
    if (!*next) return idle.count_down();
    auto job = *std::move(*next);
    job.start(
        operation::EndJobAndClaim{
            .end = {.how = operation::EndJob::How::completed, .result = bench::result()}, .how = how},
        {}, [&](Next after) { one(std::move(after)); });
  };
  for (int i = 0; i < in_flight; ++i) {
    queue.start(operation::ClaimNextTask{how}, {}, [&](Next first) { one(std::move(first)); });
  }
  idle.wait();
}

/// What the library sends for one job.
bench::BareJobs::Commands recorded(const bench::Server& server) {
  const auto hf = holdfast::open(server.url());
  const auto queue = hf.queue("bare", {.max_tasks = 0});
  for (int i = 0; i < 3; ++i) (void)queue.add(bench::new_task());
  // The server knows the scripts from here on.
  (void)queue.claim_next()->complete_and_claim(bench::result())->complete(bench::result());
  bench::Monitor monitor(server.port());
  bench::BareJobs::Commands commands;
  (void)queue.add(bench::new_task());
  commands.add = monitor.next_script();
  auto job = queue.claim_next();
  commands.claim = monitor.next_script();
  auto next = job->complete_and_claim(bench::result());
  commands.end = monitor.next_script();
  (void)next->complete(bench::result());
  return commands;
}

void compare_throughput(const bench::Server& server, const bench::BareJobs::Commands& commands, int jobs,
                        int rounds) {
  std::printf("%d jobs, median of %d rounds; per second\n", jobs, rounds);
  for (const int in_flight : {1, 50, 256}) {
    const auto hf = holdfast::open(server.url());
    const auto queue = hf.queue("ours", {.max_tasks = 0});
    std::vector<double> added, bare_added, worked, bare_worked;
    const auto timed = [&](std::vector<double>& into, auto call) {
      const auto start = Clock::now();
      call();
      into.push_back(jobs / seconds_since(start));
    };
    for (int round = 0; round < rounds; ++round) {
      bench::Raw(server.port()).call({"FLUSHALL"});
      bench::BareJobs bare(server.port(), commands);
      timed(added, [&] { add_all(queue, jobs, in_flight); });
      timed(bare_added, [&] { bare.add(jobs, in_flight); });
      timed(worked, [&] { work_on_all(queue, in_flight); });
      timed(bare_worked, [&] { bare.work(jobs, in_flight); });
    }
    const auto row = [&](const char* what, const std::vector<double>& ours, const std::vector<double>& bare) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / bare[i]);
      std::printf("  %-5s %3d in flight: library %7.0f   bare %7.0f   ratio %.2f\n", what, in_flight,
                  at(ours, 0.5), at(bare, 0.5), at(ratios, 0.5));
    };
    row("add", added, bare_added);
    row("work", worked, bare_worked);
  }
}

/// From before the add of a job until a worker that waits has it, in microseconds.
template <class Add>
std::vector<double> pick_ups(int count, const std::atomic<std::int64_t>& had_at, Add add) {
  std::vector<double> took;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(10ms);  // until the worker waits again
    const auto before = had_at.load();
    const auto start = Clock::now();
    add();
    while (had_at == before && seconds_since(start) < 5) std::this_thread::sleep_for(1ms);
    took.push_back(
        std::chrono::duration<double, std::micro>(Clock::time_point(Clock::duration(had_at.load())) - start)
            .count());
  }
  return took;
}

/// `port`: where clients connect to, the server or a proxy.
void compare_pick_up(int port, const bench::BareJobs::Commands& commands, const char* over, int count) {
  std::vector<double> ours, bare;
  std::atomic<std::int64_t> had_at = 0;
  const auto note = [&] { had_at = Clock::now().time_since_epoch().count(); };
  {
    const auto hf = holdfast::open("redis://127.0.0.1:" + std::to_string(port));
    const auto queue = hf.queue("ours", {.max_tasks = 0});
    std::jthread worker([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        auto job = queue.claim_next({.wait = 500ms});
        if (!job) continue;
        note();
        (void)job->complete(bench::result());
      }
    });
    std::this_thread::sleep_for(200ms);
    ours = pick_ups(count, had_at, [&] { (void)queue.add(bench::new_task()); });
  }
  {
    bench::Raw(port).call({"FLUSHALL"});
    const auto& waiters = bench::BareJobs::waiters(commands);
    const auto& process = bench::BareJobs::process(commands);
    const auto channel = bench::BareJobs::channel(commands);
    bench::BareJobs adds(port, commands);
    std::jthread worker([&](const std::stop_token& stop) {
      bench::BareJobs claims(port, commands);
      bench::Raw subscriber(port), raw(port);
      subscriber.call({"SUBSCRIBE", channel});
      for (;;) {
        raw.call({"ZADD", waiters, "1", process});
        subscriber.take();
        if (stop.stop_requested()) return;
        if (!claims.claim()) throw std::runtime_error("a bare claim found nothing");
        note();
      }
    });
    std::this_thread::sleep_for(200ms);
    bare = pick_ups(count, had_at, [&] { adds.add(1, 1); });
    worker.request_stop();
    bench::Raw(port).call({"PUBLISH", channel, "1"});
  }
  std::printf("  %s library %6.0f %6.0f   two bare round trips and a message %6.0f %6.0f   ratio %.2f\n",
              over, at(ours, 0.5), at(ours, 0.99), at(bare, 0.5), at(bare, 0.99),
              at(ours, 0.5) / at(bare, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::atoi(argv[1]) : 4000, rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const bench::Server server(argc > 3 ? std::atoi(argv[3]) : 27437);
  const auto commands = recorded(server);
  compare_throughput(server, commands, jobs, rounds);
  constexpr int count = 300;
  std::printf("from the add of a job until a worker that waits has it, us: p50 and p99 of %d\n", count);
  compare_pick_up(server.port(), commands, "loopback:         ", count);
  for (const auto half : {500us, 2500us}) {
    holdfast::test::TcpProxy proxy(static_cast<std::uint16_t>(server.port()));
    proxy.delay(holdfast::test::TcpProxy::Way::to_server, half);
    proxy.delay(holdfast::test::TcpProxy::Way::to_client, half);
    compare_pick_up(proxy.port(), commands,
                    half == 500us ? "trips of 1 ms more:" : "trips of 5 ms more:", count);
  }
}
