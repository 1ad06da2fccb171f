// Records in Redis, in one run, interleaved: whether what an operation costs depends on how many records an
// owner has, and how much of the server's throughput the client reaches.
//
//   redis_storage [PORT]   on a redis-server of its own

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <holdfast/redis.hpp>
#include <latch>
#include <memory>
#include <thread>

#include "redis_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using holdfast::CreateRecord;
using holdfast::GetRecord;
using holdfast::ListRecords;
using holdfast::PutRecord;
using holdfast::RecordData;
using holdfast::RecordKey;
using holdfast::RemoveRecord;
using holdfast::Result;
using holdfast::StorageBackend;

constexpr int in_flight = 256;
/// A task as it is stored, with a TTL.
const std::string record_text =
    R"({"task":{"taskId":"t","status":"working","createdAt":"2026-02-23T10:00:00.000Z",)"
    R"("lastUpdatedAt":"2026-02-23T10:00:00.000Z","ttl":3600000,"pollInterval":500},"ownerId":"o","variables":{},)"
    R"("result":null,"requestMethod":"tools/call","expiresAt":"2286-11-20T17:46:39.000Z"})";
const std::string expires_at = "9999999999", dropped_at = "9999999998999", created_at = "1771840800000";

double micros(Clock::duration length) {
  return std::chrono::duration<double>(length).count() * 1e6;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

RecordKey key_of(const std::string& text) {
  return RecordKey::parse(text).value_or_throw();
}
RecordData data_of(const std::string& text) {
  return RecordData::parse(text).value_or_throw();
}

template <class T, class Start>
T blocking(StorageBackend& backend, Start&& start) {
  holdfast::Slot<T> slot;
  start(holdfast::Done<T>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
  return (*std::move(slot.result)).value_or_throw();
}

void create(StorageBackend& backend, const std::string& key) {
  const auto outcome = blocking<holdfast::CreateOutcome>(backend, [&](auto done) {
    backend.submit(CreateRecord{.key = key_of(key), .data = data_of(record_text), .quota = 1'000'000}, {},
                   std::move(done));
  });
  if (!std::holds_alternative<holdfast::Written>(outcome)) throw std::runtime_error("not created");
}

void remove(StorageBackend& backend, const std::string& key) {
  blocking<holdfast::RemoveOutcome>(
      backend, [&](auto done) { backend.submit(RemoveRecord{.key = key_of(key)}, {}, std::move(done)); });
}

holdfast::RecordPage list(StorageBackend& backend, const std::string& owner, std::size_t limit,
                          std::optional<holdfast::ListPosition> after = {}) {
  return blocking<holdfast::RecordPage>(backend, [&](auto done) {
    backend.submit(ListRecords{.prefix = owner + ":",
                               .after = std::move(after),
                               .limit = limit,
                               .order = holdfast::ListOrder::newest_first},
                   {}, std::move(done));
  });
}

/// Keeps `in_flight` chains of operations going; `next` starts one and gets a function to call at its end.
double rate(const std::function<void(int chain, std::function<void()> ended)>& next, Clock::duration length) {
  std::atomic<bool> stop = false;
  std::latch all_ended(in_flight);
  std::vector<std::uint64_t> counts(in_flight);
  std::function<void(int)> go = [&](int chain) {
    if (stop) return all_ended.count_down();
    next(chain, [&, chain] {
      ++counts[static_cast<std::size_t>(chain)];
      go(chain);
    });
  };
  const auto start = Clock::now();
  for (int i = 0; i < in_flight; ++i) go(i);
  std::this_thread::sleep_for(length);
  stop = true;
  all_ended.wait();
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  std::uint64_t sum = 0;
  for (const auto count : counts) sum += count;
  return static_cast<double>(sum) / elapsed;
}

/// The same without a client: commands of one connection, appended as answers come, in order.
double bare_rate(bench::Raw& raw, const std::function<void(int chain)>& append, Clock::duration length) {
  redisContext* context = raw.get();
  for (int i = 0; i < in_flight; ++i) append(i);
  std::uint64_t count = 0;
  int next = 0;
  int under_way = in_flight;
  const auto start = Clock::now();
  auto end = start;
  while (under_way > 0) {
    int done = 0;
    while (done == 0) redisBufferWrite(context, &done);
    if (redisBufferRead(context) != REDIS_OK) throw std::runtime_error(context->errstr);
    void* reply = nullptr;
    while (redisGetReplyFromReader(context, &reply) == REDIS_OK && reply != nullptr) {
      const bool failed = static_cast<redisReply*>(reply)->type != REDIS_REPLY_ARRAY;
      freeReplyObject(reply);
      if (failed) throw std::runtime_error("a bare operation failed");
      --under_way;
      const auto now = Clock::now();
      if (now - start < length) {
        end = now;
        ++count;
        append(next);
        ++under_way;
      }
      next = (next + 1) % in_flight;
    }
  }
  return static_cast<double>(count) / std::chrono::duration<double>(end - start).count();
}

/// The place in its owner's list of the record that `fill` created as number i: a millisecond each.
holdfast::ListPosition place_of(int i) {
  return {.created_at = holdfast::WallTime(std::chrono::milliseconds(1'771'840'800'000 + i)),
          .task = "task-" + std::to_string(i)};
}

std::string text_of_record(int i) {
  std::array<char, 16> time{};
  std::snprintf(time.data(), time.size(), "%02d:%02d.%03d", i / 60'000 % 60, i / 1000 % 60, i % 1000);
  auto text = record_text;
  return text.replace(text.find("00:00.000"), 9, time.data());
}

void fill(StorageBackend& backend, const std::string& owner, int records) {
  std::atomic<int> created = 0;
  std::latch all(records);
  std::function<void()> go = [&] {
    const int i = created++;
    if (i >= records) return;
    backend.submit(
        CreateRecord{.key = key_of(owner + ":task-" + std::to_string(i)), .data = data_of(text_of_record(i))},
        {}, [&](const Result<holdfast::CreateOutcome>& outcome) {
          if (!outcome) std::terminate();
          all.count_down();
          go();
        });
  };
  for (int i = 0; i < in_flight; ++i) go();
  all.wait();
}

long scripts_run(bench::Raw& raw) {
  const auto stats = raw.call({"INFO", "commandstats"});
  const auto at = stats.find("cmdstat_evalsha:calls=");
  return at == std::string::npos ? 0 : std::strtol(stats.c_str() + at + 22, nullptr, 10);
}

void flatness(const bench::Server& server, StorageBackend& backend) {
  struct Owner {
    int records;
    std::string name;
    std::vector<double> create = {}, first = {}, middle = {};
    std::optional<holdfast::ListPosition> halfway = {};
  };
  std::vector<Owner> owners{{10, "ten"}, {1000, "thousand"}, {100'000, "many"}};
  for (auto& owner : owners) {
    fill(backend, owner.name, owner.records);
    owner.halfway = place_of(owner.records / 2);
  }
  for (int round = 0; round < 40; ++round) {
    for (auto& owner : owners) {
      std::vector<double> a, b, c;
      for (int i = 0; i < 50; ++i) {
        const auto key = owner.name + ":new-" + std::to_string(i);
        auto start = Clock::now();
        create(backend, key);
        a.push_back(micros(Clock::now() - start));
        remove(backend, key);
        start = Clock::now();
        const auto page = list(backend, owner.name, 10);
        b.push_back(micros(Clock::now() - start));
        if (page.records.size() != 10) throw std::runtime_error("not a full page");
        start = Clock::now();
        (void)list(backend, owner.name, 5, owner.halfway);
        c.push_back(micros(Clock::now() - start));
      }
      owner.create.push_back(median(a));
      owner.first.push_back(median(b));
      owner.middle.push_back(median(c));
    }
  }
  std::printf("  records of the owner     create           first page of 10   page of 5 from the middle\n");
  const auto ratio = [&](std::vector<double> Owner::* what, const Owner& owner) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < (owner.*what).size(); ++i) {
      ratios.push_back((owner.*what)[i] / (owners[0].*what)[i]);
    }
    return median(ratios);
  };
  for (const auto& owner : owners) {
    std::printf("  %18d   %6.1f us x%.2f   %6.1f us x%.2f    %6.1f us x%.2f\n", owner.records,
                median(owner.create), ratio(&Owner::create, owner), median(owner.first),
                ratio(&Owner::first, owner), median(owner.middle), ratio(&Owner::middle, owner));
  }
  bench::Raw raw(server.port());
  for (const auto& owner : owners) {
    const auto before = scripts_run(raw);
    create(backend, owner.name + ":counted");
    const auto created = scripts_run(raw);
    (void)list(backend, owner.name, 10);
    const auto listed = scripts_run(raw);
    std::printf("  %18d   round trips: create %ld, a page %ld\n", owner.records, created - before,
                listed - created);
  }
}

void throughput(const bench::Server& server, StorageBackend& backend) {
  bench::Raw raw(server.port());
  const auto load = [&](const std::string& name) {
    return raw.call({"SCRIPT", "LOAD", bench::text_of(HOLDFAST_SCRIPTS "/" + name + ".lua")});
  };
  const auto get_sha = load("task_get"), put_sha = load("task_put"), cas_sha = load("task_put_if_version");
  struct Slot {
    RecordKey key;
    std::string task, hash, channel;
    std::uint64_t version = 1;
  };
  std::vector<Slot> ours, bare;
  for (int i = 0; i < in_flight; ++i) {
    for (auto* slots : {&ours, &bare}) {
      const std::string owner = slots == &ours ? "ours" : "bare";
      const auto task = "task-" + std::to_string(i);
      const auto name = owner + ":" + task;
      slots->push_back({key_of(name), task, "pmcp:tasks:" + name, "pmcp:changed:0:" + name});
      create(backend, name);
    }
  }
  const auto data = data_of(record_text);
  const auto slot_of = [](std::vector<Slot>& slots, int i) -> Slot& {
    return slots[static_cast<std::size_t>(i)];
  };
  const auto check = [](bool good) {
    if (!good) std::terminate();
  };
  struct Kind {
    const char* name;
    std::function<double()> bare, ours;
  };
  constexpr auto length = 500ms;
  std::vector<Kind> kinds;
  kinds.push_back(
      {"get",
       [&] {
         return bare_rate(
             raw, [&](int i) { raw.append({"EVALSHA", get_sha, "1", slot_of(bare, i).hash}); }, length);
       },
       [&] {
         return rate(
             [&](int i, auto ended) {
               backend.submit(GetRecord{.key = slot_of(ours, i).key}, {},
                              [&, ended](const Result<std::optional<holdfast::StoredRecord>>& got) {
                                check(got && got->has_value());
                                ended();
                              });
             },
             length);
       }});
  kinds.push_back(
      {"put",
       [&] {
         return bare_rate(
             raw,
             [&](int i) {
               auto& slot = slot_of(bare, i);
               ++slot.version;
               const auto id = holdfast::LockId::generate();
               raw.append({"EVALSHA", put_sha, "2", slot.hash, "pmcp:idx:bare", record_text, expires_at,
                           slot.task, created_at, dropped_at, id.str(), slot.channel, "1", "", "", ""});
             },
             length);
       },
       [&] {
         return rate(
             [&](int i, auto ended) {
               backend.submit(PutRecord{.key = slot_of(ours, i).key, .data = data}, {},
                              [&, i, ended](const Result<holdfast::PutOutcome>& put) {
                                check(put && std::holds_alternative<holdfast::Written>(*put));
                                slot_of(ours, i).version = std::get<holdfast::Written>(*put).version;
                                ended();
                              });
             },
             length);
       }});
  kinds.push_back(
      {"put_if_version",
       [&] {
         return bare_rate(
             raw,
             [&](int i) {
               auto& slot = slot_of(bare, i);
               const auto id = holdfast::LockId::generate();
               const auto version = std::to_string(slot.version++);
               raw.append({"EVALSHA", cas_sha, "2", slot.hash, "pmcp:idx:bare", record_text, version,
                           expires_at, slot.task, created_at, "", dropped_at, id.str(), slot.channel, "", "",
                           ""});
             },
             length);
       },
       [&] {
         return rate(
             [&](int i, auto ended) {
               backend.submit(
                   PutRecord{.key = slot_of(ours, i).key,
                             .data = data,
                             .expected = holdfast::ExpectedVersion{.version = slot_of(ours, i).version}},
                   {}, [&, i, ended](const Result<holdfast::PutOutcome>& put) {
                     check(put && std::holds_alternative<holdfast::Written>(*put));
                     ++slot_of(ours, i).version;
                     ended();
                   });
             },
             length);
       }});
  for (const auto& kind : kinds) {
    std::vector<double> theirs, mine, ratio;
    for (int round = 0; round < 10; ++round) {
      theirs.push_back(kind.bare());
      mine.push_back(kind.ours());
      ratio.push_back(mine.back() / theirs.back());
    }
    std::printf("  %-14s bare %7.0f /s   ours %7.0f /s   ratio %.2f\n", kind.name, median(theirs),
                median(mine), median(ratio));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Server server(argc > 1 ? std::atoi(argv[1]) : 26380);
  const auto backend =
      holdfast::make_redis_storage_backend(holdfast::parse_redis_url(server.url()).value_or_throw())
          .value_or_throw();
  bench::pin(server.pid(), 0);
  bench::pin(0, 1);
  std::printf("%d in flight, records of %zu bytes, server and client on a processor each:\n", in_flight,
              record_text.size());
  throughput(server, *backend);
  std::printf("One blocking call after another (p50), and how that compares with an owner of ten:\n");
  flatness(server, *backend);
  return 0;
}
