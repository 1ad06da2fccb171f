#include "queue/health.hpp"

#include <algorithm>
#include <holdfast/printable.hpp>

namespace holdfast::queue {
namespace {

using namespace std::chrono_literals;

/// Ready for so long, with no task being worked on: there are no workers. Shorter, they may be restarting.
constexpr auto no_workers_after = 5min;
/// Ready for so long although others are worked on: there are too few.
constexpr auto too_few_workers_after = 1h;

std::string named(const std::string& name) {
  return "\"" + printable(name) + "\"";
}

std::string tasks_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " task" : " tasks");
}

std::string minutes_text(std::chrono::milliseconds length) {
  const auto minutes = std::chrono::floor<std::chrono::minutes>(length).count();
  return minutes < 120 ? std::to_string(minutes) + " min" : std::to_string(minutes / 60) + " h";
}

std::size_t unfinished(const QueueCounts& counts) noexcept {
  return counts.ready + counts.delayed + counts.parked + counts.leased + counts.exhausted;
}

void judge_workers(const ExaminedQueue& queue, WallTime now, std::vector<Finding>& findings) {
  const auto& counts = queue.counts;
  const auto working = counts.leased - counts.expired;
  const auto add = [&](Severity severity, const std::string& found, const std::string& advice) {
    findings.push_back({severity, "queue", named(queue.name) + ": " + found, advice});
  };
  const auto waits = counts.oldest_ready ? now - *counts.oldest_ready : 0ms;
  // A delayed task that is due counts as delayed until a claim finds it.
  const auto overdue = counts.next_due ? now - *counts.next_due : 0ms;
  const auto command = printable(queue.name);
  if (counts.paused) {
    if (counts.ready > 0) {
      add(Severity::note, "paused, with " + tasks_text(counts.ready) + " ready",
          "holdfast queue resume " + command);
    }
  } else if (counts.ready > 0 && working == 0 && waits >= no_workers_after) {
    add(Severity::warning,
        tasks_text(counts.ready) + " ready, the next one for " + minutes_text(waits) +
            ", and none is worked on",
        "start a worker: holdfast task work " + command + " -- COMMAND");
  } else if (counts.expired > 0 && working == 0) {  // an idle worker would have found them within a second
    add(Severity::warning, tasks_text(counts.expired) + " whose workers have died, and none is worked on",
        "start a worker: holdfast task work " + command + " -- COMMAND");
  } else if (counts.ready == 0 && working == 0 && overdue >= no_workers_after) {
    add(Severity::warning,
        tasks_text(counts.delayed) + " delayed, the next one due " + minutes_text(overdue) +
            " ago, and none is worked on",
        "start a worker: holdfast task work " + command + " -- COMMAND");
  } else if (counts.ready > 0 && waits >= too_few_workers_after) {
    add(Severity::note,
        tasks_text(counts.ready) + " ready, the next one for " + minutes_text(waits) +
            ": tasks come faster than they are worked on",
        "start more workers");
  }
  if (counts.exhausted > 0 && working == 0) {
    add(Severity::warning,
        tasks_text(counts.exhausted) + " without an attempt left; the next claim marks them failed",
        "start a worker: holdfast task work " + command + " -- COMMAND");
  }
  if (queue.failed > 0) {
    add(Severity::note,
        std::to_string(queue.failed) + " of the newest " + tasks_text(queue.newest) + " failed",
        "holdfast queue show " + command +
            " --status failed lists them, and holdfast queue retry repeats one");
  }
}

}  // namespace

std::vector<Finding> judge_queues(std::span<const ExaminedQueue> queues, std::span<const Finding> store,
                                  WallTime now) {
  std::vector<Finding> findings;
  if (queues.empty()) return findings;
  std::size_t ready = 0;
  std::size_t working = 0;
  std::size_t waiting = 0;
  for (const auto& queue : queues) {
    ready += queue.counts.ready;
    working += queue.counts.leased - queue.counts.expired;
    waiting += unfinished(queue.counts);
    judge_workers(queue, now, findings);
  }
  // A lock that is lost is acquired again. A task that is lost was work.
  const auto worst_of = [&](std::string_view topic) {
    auto worst = Severity::ok;
    for (const auto& finding : store) {
      if (finding.topic == topic) worst = std::max(worst, finding.severity);
    }
    return worst;
  };
  const auto all = "unfinished tasks: " + std::to_string(waiting);
  if (waiting > 0 && worst_of("persistence") >= Severity::warning) {
    findings.push_back(
        {worst_of("persistence"), "queue", all + "; a crash of the server may lose them", "see persistence"});
  }
  if (waiting > 0 && worst_of("memory") == Severity::problem) {
    findings.push_back({Severity::problem, "queue", all + "; the server may evict them", "see memory"});
  }
  if (std::ranges::none_of(findings, [](const Finding& one) { return one.severity >= Severity::warning; })) {
    findings.insert(findings.begin(),
                    {Severity::ok,
                     "queue",
                     std::to_string(queues.size()) + (queues.size() == 1 ? " queue: " : " queues: ") +
                         tasks_text(ready) + " ready, " + std::to_string(working) + " worked on",
                     {}});
  }
  return findings;
}

}  // namespace holdfast::queue
