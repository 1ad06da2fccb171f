#include "queue/claiming.hpp"

#include <algorithm>
#include <span>

#include "core/utf8.hpp"
#include "os/random.hpp"
#include "queue/claimed_job.hpp"
#include "queue/first_woken.hpp"
#include "tasks/change_loop.hpp"
#include "tasks/exhausted.hpp"
#include "tasks/retention.hpp"

namespace holdfast::queue {
namespace {

using runtime::Flow;
using runtime::Op;
using std::chrono::milliseconds;

constexpr std::size_t max_worker_bytes = 256;
/// Poll interval: for a woken worker that died, for changes by other software and for lost wake-ups.
constexpr milliseconds longest_pause{1000};
/// A wait survives a store that is unreachable for up to this long.
constexpr milliseconds longest_outage = std::chrono::minutes(1);
/// A record that cannot be read is left alone for this long: an operator has to look at it.
constexpr milliseconds unreadable_again = std::chrono::minutes(10);

/// What became of the answer of a claim.
struct Accepted {
  std::vector<Job> jobs;
  /// Claimed records that cannot be worked on, so that the next ones should be claimed.
  bool has_leftovers = false;
};

/// A claimed record that is final already, or cannot be read.
struct Leftover {
  ClaimedRecord claimed;
  std::optional<tasks::TaskRecord> ended;
};

/// Gives these back in the background.
void give_back(const QueueStore& store, std::span<const ClaimedRecord> claimed) noexcept {
  for (const auto& [key, record] : claimed) {
    if (!record.bound_to) continue;
    try {
      store.renewals->end_in_background({.key = key,
                                         .incarnation = record.incarnation,
                                         .token = *record.bound_to,
                                         .end = LeaseEnd::given_back});
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the lease expires
    }
  }
}

/// Whether a claim ended because its work is bounded: its answer does not say that none can be claimed.
bool ended_early(const ClaimedRecords& answer) noexcept {
  return answer.claimed.empty() && answer.look_again_after == milliseconds(0);
}

/// Starts the job of a claimed record; empty, with a leftover, if it cannot be worked on.
std::optional<Job> start_job(const Claim& what, const std::string& owner, BootTime sent,
                             const ClaimedRecord& claimed, std::vector<Leftover>& leftovers) {
  if (!claimed.record.bound_to) {
    throw Error(ErrorCode::Internal, "the store granted a task without a fence");
  }
  auto record = tasks::record_of(claimed.record, claimed.key.task(), owner);
  if (!record || is_final(record->status())) {
    leftovers.push_back({claimed, record ? std::optional(*std::move(record)) : std::nullopt});
    return std::nullopt;
  }
  return ClaimedJob::start(what.store, {.key = claimed.key,
                                        .task = record->task(claimed.record),
                                        .token = *claimed.record.bound_to,
                                        .lease = what.lease,
                                        .sent = sent,
                                        .notice = what.notice});
}

/// The jobs of claimed records. If one cannot be started, it and the others are given back: no worker has
/// begun them, so their attempts must not count as deaths.
std::vector<Job> start_jobs(const Claim& what, const std::string& owner, BootTime sent,
                            const std::vector<ClaimedRecord>& claimed, std::vector<Leftover>& leftovers) {
  std::vector<Job> jobs;
  std::size_t next = 0;
  try {
    for (; next < claimed.size(); ++next) {
      if (auto job = start_job(what, owner, sent, claimed[next], leftovers)) jobs.push_back(*std::move(job));
    }
  } catch (...) {
    give_back(*what.store, std::span(claimed).subspan(next));
    throw;
  }
  return jobs;
}

/// Ends the lease of a record that is final already, or cannot be read.
Op<Ok> put_aside(tasks::Call call, ClaimedRecord claimed, std::optional<tasks::TaskRecord> ended) {
  EndLease request{.key = claimed.key,
                   .incarnation = claimed.record.incarnation,
                   .token = *claimed.record.bound_to,
                   .end = LeaseEnd::retried,
                   .delay = unreadable_again};
  if (ended) {
    // Other software has ended it, and left it in the queue.
    const auto now = call.store->storage->now();
    if (const auto& state = claimed.record.queue) {
      ended->keep_for(tasks::retention_of(state->terms, ended->status()), now);
    }
    if (ended->status() == TaskStatus::failed) request.max_dead = call.store->max_dead;
    auto data = tasks::record_data(ended->task(claimed.record));
    if (!data) co_return data.error();
    request.end = LeaseEnd::finished;
    request.delay = {};
    request.write.emplace(*std::move(data), ExpectedVersion{.version = claimed.record.version,
                                                            .incarnation = claimed.record.incarnation});
  }
  // If this fails, the lease expires, and the next claim finds the record.
  (void)co_await call.ask(std::move(request));
  co_return Ok{};
}

Op<Accepted> accept(Flow flow, const Claim& what, std::string owner, ClaimedRecords answer, BootTime sent,
                    std::stop_token stop) {
  Accepted accepted;
  auto call = what.store->call(std::move(flow), owner, std::move(stop));
  std::vector<Leftover> leftovers;
  accepted.jobs = start_jobs(what, owner, sent, answer.claimed, leftovers);
  accepted.has_leftovers = !leftovers.empty();
  for (auto& [claimed, ended] : leftovers) {
    auto aside = put_aside(call, std::move(claimed), std::move(ended));
    (void)co_await std::move(aside);
  }
  for (const auto& exhausted : answer.exhausted) {
    const auto record = tasks::record_of(exhausted.record, exhausted.key.task(), owner);
    if (!record) continue;
    auto ending = tasks::end_exhausted(call, record->task(exhausted.record));
    (void)co_await std::move(ending);
  }
  co_return std::move(accepted);
}

/// One round over all queues.
struct Round {
  std::vector<Job> jobs;
  std::string owner = {};  ///< of the jobs
  milliseconds look_again_after = longest_pause;
};

Error stopped_wait() {
  return {ErrorCode::Aborted, "the wait for a task was stopped"};
}

/// A claim that ended early is repeated until it has looked at all records that were there when it began: an
/// answer "none" is true, and no task of a later queue comes before one of an earlier queue. The search ends:
/// each request moves or parks up to a hundred records, once each, and ClaimNext::searched leaves out those
/// that become due meanwhile. It gives way to a stop request after each.
Op<Round> claim_once(Flow flow, const Claim& what, std::stop_token stop) {
  Round round;
  for (const auto& owner : what.owners) {
    const auto begun = BootClock::now();
    milliseconds searched{0};
    for (bool again = true; again;) {
      if (stop.stop_requested()) co_return stopped_wait();
      const auto sent = BootClock::now();
      ClaimNext request{.owner = owner, .terms = what.terms, .searched = searched};
      auto answer = co_await flow.ask(what.store->tasks->storage, std::move(request), stop);
      if (!answer) co_return answer.error();
      again = ended_early(*answer);
      if (!again && answer->look_again_after) {
        round.look_again_after = std::min(round.look_again_after, *answer->look_again_after);
      }
      auto accepting = accept(flow, what, owner, *std::move(answer), sent, stop);
      auto accepted = co_await std::move(accepting);
      if (!accepted) co_return accepted.error();
      round.jobs = std::move(accepted->jobs);
      round.owner = owner;
      if (!round.jobs.empty()) co_return std::move(round);
      again = again || accepted->has_leftovers;
      searched = std::chrono::ceil<milliseconds>(BootClock::now() - begun);
    }
  }
  co_return std::move(round);
}

Op<std::vector<Job>> claim_until(Flow flow, const Claim& what, BootTime deadline, std::stop_token stop) {
  // The watches come before the first claim, so that no task falls between them.
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<std::string> watched;
  std::vector<char> woken;
  // A wake-up that this wait does not use is another worker's.
  const auto pass_on = [&](const std::string& unless) {
    for (std::size_t i = 0; i < woken.size(); ++i) {
      if (woken[i] != 0 && watched[i] != unless) watches[i]->pass_on();
    }
    woken.clear();
  };
  if (deadline > BootClock::now()) {
    for (const auto& owner : what.owners) {
      WatchQueue request{.owner = owner, .deadline = deadline};
      auto watch = co_await flow.ask(what.store->tasks->storage, std::move(request), stop);
      if (!watch || !*watch) continue;
      watches.push_back(*std::move(watch));
      watched.push_back(owner);
    }
  }
  std::optional<BootTime> away_since;
  for (;;) {
    if (stop.stop_requested()) {
      pass_on({});
      co_return stopped_wait();
    }
    const auto begun = BootClock::now();
    auto claiming = claim_once(flow, what, stop);
    auto round = co_await std::move(claiming);
    auto pause = longest_pause;
    if (round) {
      // What was granted after all is given back: the jobs end here.
      if (!round->jobs.empty() && stop.stop_requested()) continue;
      if (!round->jobs.empty()) {
        pass_on(round->owner);
        co_return std::move(round->jobs);
      }
      woken.clear();
      away_since.reset();
      pause = round->look_again_after;
    } else {
      away_since = away_since.value_or(begun);
      const auto give_up_at = std::min(deadline, saturating_add(*away_since, longest_outage));
      if (!round.error().transient() || BootClock::now() >= give_up_at) {
        pass_on({});
        co_return round.error();
      }
    }
    const auto now = BootClock::now();
    if (now >= deadline) co_return std::vector<Job>();
    // The jitter keeps workers that began together from polling together.
    const auto jitter = milliseconds(static_cast<milliseconds::rep>(
        pause == longest_pause ? os::jitter_fraction() * static_cast<double>(pause.count()) / 4 : 0));
    const auto look_again = std::min(deadline, now + pause - jitter);
    if (watches.size() < 2) {
      auto* const watch = watches.empty() ? nullptr : watches.front().get();
      const bool was_woken = co_await flow.wait(watch, look_again, look_again, stop);
      if (was_woken) woken.assign(watches.size(), 1);
    } else {
      FirstWoken first(flow, watches, look_again, stop);
      const auto now_woken = co_await first;
      const bool any = std::ranges::find(now_woken, 1) != now_woken.end();
      // A round that failed has not used its wake-ups.
      woken.resize(watches.size());
      for (std::size_t i = 0; i < woken.size(); ++i) {
        if (now_woken[i] != 0) woken[i] = 1;
      }
      // No thread of the engine could wake it: it polls by the clock.
      if (!any && !stop.stop_requested() && BootClock::now() < look_again) {
        (void)co_await flow.sleep_until(look_again, stop);
      }
    }
  }
}

}  // namespace

Result<Claim> Claim::of(std::shared_ptr<const QueueStore> store, std::vector<std::string> owners,
                        const ClaimOptions& how, std::size_t limit) {
  const auto lease = Ttl::of(how.lease);
  if (!lease) return lease.error();
  if (how.notice) {
    if (auto why = locks::Notice::refusal(*how.notice, how.lease, milliseconds(0), "lease")) return *why;
  }
  if (how.wait < milliseconds(0)) {
    return Error(ErrorCode::InvalidArgument, "the wait for a task must not be negative");
  }
  auto worker = std::string(how.worker.empty() ? std::string_view(store->worker) : how.worker);
  if (worker.size() > max_worker_bytes || !core::is_utf8(worker)) {
    return Error(ErrorCode::InvalidArgument,
                 "a worker's label is at most " + std::to_string(max_worker_bytes) + " bytes of UTF-8");
  }
  return Claim{.store = std::move(store),
               .owners = std::move(owners),
               .terms = {.worker = std::move(worker),
                         .lease = how.lease,
                         .limit = limit,
                         .ends_with_process = how.ends_with_process},
               .lease = *lease,
               .notice = locks::Notice(how.notice),
               .wait = how.wait};
}

Op<std::vector<Job>> claim(Flow flow, Claim what, std::stop_token stop) {
  const auto deadline = saturating_add(BootClock::now(), what.wait);
  auto claiming = claim_until(std::move(flow), what, deadline, std::move(stop));
  co_return co_await std::move(claiming);
}

Op<std::vector<Job>> claim_after(Flow flow, Claim what, std::optional<ClaimedRecords> first, BootTime sent,
                                 std::stop_token stop) {
  const auto deadline = saturating_add(BootClock::now(), what.wait);
  bool goes_on = !first.has_value();
  if (first) {
    goes_on = ended_early(*first);
    auto accepting = accept(flow, what, what.owners.front(), *std::move(first), sent, stop);
    auto accepted = co_await std::move(accepting);
    if (!accepted) co_return accepted.error();
    if (!accepted->jobs.empty()) co_return std::move(accepted->jobs);
    goes_on = goes_on || accepted->has_leftovers;
  }
  if (!goes_on && what.wait <= milliseconds(0)) co_return std::vector<Job>();
  auto claiming = claim_until(std::move(flow), what, deadline, std::move(stop));
  co_return co_await std::move(claiming);
}

Op<std::optional<Job>> claim_task(Flow flow, Claim what, std::string id, std::stop_token stop) {
  const auto& owner = what.owners.front();
  auto key = RecordKey::of(owner, id);
  if (!key) co_return key.error();
  const auto sent = BootClock::now();
  ClaimRecord request{.key = *std::move(key), .terms = what.terms};
  auto answer = co_await flow.ask(what.store->tasks->storage, std::move(request), stop);
  if (!answer) co_return answer.error();
  auto* const claimed = std::get_if<ClaimedRecord>(&*answer);
  if (claimed == nullptr) co_return std::nullopt;
  ClaimedRecords one;
  one.claimed.push_back(std::move(*claimed));
  auto accepting = accept(flow, what, owner, std::move(one), sent, std::move(stop));
  auto accepted = co_await std::move(accepting);
  if (!accepted) co_return accepted.error();
  if (accepted->jobs.empty()) co_return std::nullopt;
  co_return std::optional<Job>(std::move(accepted->jobs.front()));
}

}  // namespace holdfast::queue
