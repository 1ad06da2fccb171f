// The output of commands: kept beside a record, fenced as a write, gone with it.

#include <algorithm>

#include "contract/storage_contract.hpp"
#include "support/queue_calls.hpp"
#include "support/seeded.hpp"

namespace holdfast::test {
namespace {

constexpr std::uint64_t chunk = output_chunk_bytes;

struct Append {
  std::string out = {}, err = {};
  std::uint64_t out_at = 0, err_at = 0;
  std::size_t keep = std::size_t{64} * 1024;
  std::uint64_t fence = 5;
  std::string incarnation = {};
  std::uint32_t attempt = 0;
  bool is_complete = false;
};

AppendOutcome append(StorageBackend& backend, const Append& what, std::string_view key = "o:t") {
  return outcome(backend, AppendOutput{.key = record_key(key),
                                       .incarnation = what.incarnation,
                                       .fence = token(what.fence),
                                       .attempt = what.attempt,
                                       .pieces = {OutputPiece{.at = what.out_at, .bytes = what.out},
                                                  OutputPiece{.at = what.err_at, .bytes = what.err}},
                                       .keep = what.keep,
                                       .is_complete = what.is_complete});
}

std::optional<KeptOutput> read(StorageBackend& backend, std::uint64_t run = 0, std::uint64_t out_from = 0,
                               std::uint64_t err_from = 0, std::size_t limit = max_output_read) {
  return outcome(
      backend,
      ReadOutput{.key = record_key("o:t"), .run = run, .from = {out_from, err_from}, .limit = limit});
}

/// Different at each position.
std::string text(std::uint64_t from, std::uint64_t to) {
  std::string bytes;
  for (auto at = from; at < to; ++at) bytes += static_cast<char>(at * 7 + at / 256);
  return bytes;
}

class OutputContract : public StorageContract {};

TEST_P(OutputContract, WhatIsAppendedIsRead) {
  const auto created = create(*mine, "o:t");
  EXPECT_EQ(read(*theirs)->run, 0U);
  const auto run =
      std::get<OutputRun>(append(*mine, {.out = std::string("a\0\xFF", 3), .err = "e", .attempt = 2}));
  EXPECT_EQ(run.number, 1U);
  EXPECT_EQ(run.attempt, 2U);
  EXPECT_EQ(run.fence, token(5).fence);
  EXPECT_FALSE(run.is_complete);
  EXPECT_EQ(run.streams[0], (OutputRange{.begin = 0, .end = 3}));
  append(*theirs, {.out = "b", .out_at = 3, .err_at = 1, .is_complete = true});
  const auto output = read(*mine).value();
  EXPECT_EQ(output.run, 1U);
  EXPECT_EQ(output.pieces[0].bytes, std::string("a\0\xFF"
                                                "b",
                                                4));
  EXPECT_EQ(output.pieces[1].bytes, "e");
  ASSERT_EQ(output.runs.size(), 1U);
  EXPECT_TRUE(output.runs[0].is_complete);
  EXPECT_EQ(output.runs[0].streams[1], (OutputRange{.begin = 0, .end = 1}));
  // The record is as it was, but for the fence.
  expect_record("o:t",
                {.data = "{}", .version = 1, .incarnation = created.incarnation, .bound_to = token(5)});
}

TEST_P(OutputContract, AReaderGoesOnWhereItEnded) {
  create(*mine, "o:t");
  append(*mine, {.out = text(0, 20000), .err = "err"});
  const auto first = read(*theirs, 0, 0, 0, 9000).value();
  EXPECT_EQ(first.pieces[0].bytes, text(0, 9000));
  const auto rest = read(*theirs, 0, 9000, 3).value();
  EXPECT_EQ(rest.pieces[0].at, 9000U);
  EXPECT_EQ(rest.pieces[0].bytes, text(9000, 20000));
  EXPECT_EQ(rest.pieces[1].bytes, "");
  const auto behind = read(*theirs, 0, 50000, 50000).value();
  EXPECT_EQ(behind.pieces[0].at, 20000U);
  EXPECT_EQ(behind.pieces[0].bytes, "");
}

TEST_P(OutputContract, ARepeatedPieceIsKeptOnce) {
  create(*mine, "o:t");
  append(*mine, {.out = "hello"});
  append(*theirs, {.out = "hello"});
  append(*theirs, {.out = "lo you", .out_at = 3});
  EXPECT_EQ(read(*mine)->pieces[0].bytes, "hello you");
}

TEST_P(OutputContract, APieceBehindAGapReplacesWhatIsKept) {
  create(*mine, "o:t");
  append(*mine, {.out = text(0, 10000), .err = "kept"});
  // In the chunk in which the old output ends, then far behind.
  for (const std::uint64_t at : {std::uint64_t{12000}, 40 * chunk + 5}) {
    append(*mine, {.out = text(at, at + 100), .out_at = at});
    append(*mine, {.out = text(at + 100, at + 9000), .out_at = at + 100});
    const auto output = read(*theirs).value();
    EXPECT_EQ(output.pieces[0].at, at);
    EXPECT_EQ(output.pieces[0].bytes, text(at, at + 9000));
    EXPECT_EQ(output.runs[0].streams[0], (OutputRange{.begin = at, .end = at + 9000}));
    EXPECT_EQ(output.pieces[1].bytes, "kept");
  }
}

TEST_P(OutputContract, TheEndOfALongOutputIsKept) {
  create(*mine, "o:t");
  Seeded random;
  SCOPED_TRACE(random.seed());
  std::array<std::uint64_t, 2> ends{};
  constexpr std::size_t keep = 3 * chunk + 100;
  for (int i = 0; i < 40; ++i) {
    const auto out = random.below(6000);
    const auto err = random.below(3) == 0 ? random.below(20000) : 0;
    append(*mine, {.out = text(ends[0], ends[0] + out),
                   .err = text(ends[1], ends[1] + err),
                   .out_at = ends[0],
                   .err_at = ends[1],
                   .keep = keep});
    ends[0] += out;
    ends[1] += err;
    const auto output = read(*theirs).value();
    for (std::size_t stream = 0; stream < output_streams; ++stream) {
      const auto [begin, end] = output.runs[0].streams[stream];
      ASSERT_EQ(end, ends[stream]);
      ASSERT_EQ(output.pieces[stream].at, begin);
      ASSERT_EQ(output.pieces[stream].bytes, text(begin, end));
      ASSERT_GE(end - begin, std::min<std::uint64_t>(keep, end));
      ASSERT_LT(end - begin, keep + chunk);
    }
  }
}

TEST_P(OutputContract, OneRequestMayBeLargerThanWhatIsKept) {
  create(*mine, "o:t");
  append(*mine, {.out = text(0, 60000), .keep = 10});
  const auto output = read(*theirs).value();
  EXPECT_EQ(output.runs[0].streams[0].end, 60000U);
  EXPECT_EQ(output.pieces[0].bytes, text(7 * chunk, 60000));
}

TEST_P(OutputContract, AHigherFenceBeginsAnotherRun) {
  create(*mine, "o:t");
  append(*mine, {.out = "first", .attempt = 1});
  append(*mine, {.out = "second", .fence = 6, .attempt = 2});
  const auto newest = read(*theirs).value();
  EXPECT_EQ(newest.run, 2U);
  EXPECT_EQ(newest.pieces[0].bytes, "second");
  ASSERT_EQ(newest.runs.size(), 2U);
  EXPECT_EQ(newest.runs[0].attempt, 1U);
  EXPECT_EQ(read(*theirs, 1)->pieces[0].bytes, "first");
  EXPECT_EQ(read(*theirs, 7)->run, 0U);
}

TEST_P(OutputContract, ALateWriterIsRefused) {
  create(*mine, "o:t");
  append(*mine, {.out = "early"});
  outcome(*theirs, BindRecord{.key = record_key("o:t"), .fence = token(6)});
  // Before the next worker has written, and after it.
  for (int i = 0; i < 2; ++i) {
    const auto refused = std::get<FenceRefused>(append(*mine, {.out = " late", .out_at = 5}));
    EXPECT_EQ(refused.why, ErrorCode::StaleFence);
    EXPECT_EQ(refused.bound_to, token(6));
    append(*theirs, {.out = "newer", .fence = 6});
  }
  EXPECT_EQ(read(*mine)->pieces[0].bytes, "newer");
  EXPECT_EQ(read(*mine, 1)->pieces[0].bytes, "early");
  const AppendOutput other{.key = record_key("o:t"), .fence = token(9, "other lock")};
  EXPECT_EQ(std::get<FenceRefused>(outcome(*mine, other)).why, ErrorCode::WrongLock);
}

TEST_P(OutputContract, TheNewestRunsAreKept) {
  create(*mine, "o:t");
  for (std::uint64_t fence = 1; fence <= max_output_runs + 2; ++fence) {
    append(*mine, {.out = text(fence, fence + 20000), .fence = fence});
  }
  const auto output = read(*theirs).value();
  ASSERT_EQ(output.runs.size(), max_output_runs);
  EXPECT_EQ(output.runs[0].number, 3U);
  EXPECT_EQ(read(*theirs, 2)->run, 0U);
  EXPECT_EQ(read(*theirs, 3)->pieces[0].bytes, text(3, 20003));
}

TEST_P(OutputContract, WithoutTheRecordThereIsNone) {
  EXPECT_TRUE(std::holds_alternative<NoRecord>(append(*mine, {.out = "x"})));
  EXPECT_FALSE(read(*mine));
  const auto created = create(*mine, "o:t");
  EXPECT_TRUE(std::holds_alternative<NoRecord>(append(*mine, {.out = "x", .incarnation = "another"})));
  EXPECT_TRUE(
      std::holds_alternative<OutputRun>(append(*mine, {.out = "x", .incarnation = created.incarnation})));
  const ReadOutput other{.key = record_key("o:t"), .incarnation = "another"};
  EXPECT_FALSE(outcome(*mine, other));
}

TEST_P(OutputContract, ItIsRemovedWithItsRecord) {
  create(*mine, "o:t");
  append(*mine, {.out = "old"});
  ASSERT_TRUE(remove(*theirs, "o:t"));
  create(*mine, "o:t");
  EXPECT_TRUE(read(*theirs)->runs.empty());
  append(*mine, {.out = "new"});
  EXPECT_EQ(read(*theirs)->run, 1U);
  EXPECT_EQ(read(*theirs)->pieces[0].bytes, "new");
}

TEST_P(OutputContract, ItExpiresWithItsRecord) {
  const auto expiry = std::chrono::duration_cast<milliseconds>(mine->now().time_since_epoch()).count() + 1200;
  create(*mine, "o:t", record_text({.expires_at = expiry}));
  append(*mine, {.out = "old"});
  world->reach(expiry);
  EXPECT_FALSE(read(*mine));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(append(*mine, {.out = "late", .out_at = 3})));
  create(*theirs, "o:t");
  EXPECT_TRUE(read(*mine)->runs.empty());
}

TEST_P(OutputContract, AWriteOfTheRecordLeavesIt) {
  create(*mine, "o:t");
  append(*mine, {.out = "kept"});
  put(*theirs, "o:t", "changed");
  append(*mine, {.out = " on", .out_at = 4});
  EXPECT_EQ(read(*theirs)->pieces[0].bytes, "kept on");
  EXPECT_EQ(get(*theirs, "o:t")->data, "changed");
}

TEST_P(OutputContract, MoreThanOneRequestHoldsIsRefused) {
  create(*mine, "o:t");
  const AppendOutput request{
      .key = record_key("o:t"),
      .fence = token(5),
      .pieces = {OutputPiece{.bytes = std::string(max_appended_bytes, 'x')}, OutputPiece{.bytes = "y"}}};
  const auto refused = call(*mine, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
}

TEST_P(OutputContract, AWorkerOfAQueueWritesUntilTheNextClaim) {
  enqueue(*mine, "q:t");
  const auto claimed = claim_one(*mine);
  const auto append_as = [](StorageBackend& backend, const ClaimedRecord& as, std::string bytes) {
    return outcome(backend, AppendOutput{.key = as.key,
                                         .incarnation = as.record.incarnation,
                                         .fence = *as.record.bound_to,
                                         .attempt = as.record.queue->attempts,
                                         .pieces = {OutputPiece{.bytes = std::move(bytes)}, OutputPiece{}}});
  };
  EXPECT_TRUE(std::holds_alternative<OutputRun>(append_as(*mine, claimed, "one")));
  outcome(*mine, EndLease{.key = claimed.key,
                          .incarnation = claimed.record.incarnation,
                          .token = *claimed.record.bound_to,
                          .end = LeaseEnd::retried});
  // The end of its output may come after the end of its lease.
  EXPECT_TRUE(std::holds_alternative<OutputRun>(append_as(*mine, claimed, "one, more")));
  const auto next = claim_one(*theirs);
  EXPECT_TRUE(std::holds_alternative<FenceRefused>(append_as(*mine, claimed, "one, more, late")));
  EXPECT_TRUE(std::holds_alternative<OutputRun>(append_as(*theirs, next, "two")));
  const auto output = outcome(*mine, ReadOutput{.key = next.key, .run = 1}).value();
  EXPECT_EQ(output.pieces[0].bytes, "one, more");
  EXPECT_EQ(output.runs.at(1).attempt, 2U);
}

INSTANTIATE_TEST_SUITE_P(Engines, OutputContract, testing::ValuesIn(queue_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
