#include "core/output_decisions.hpp"

#include <gtest/gtest.h>

#include "support/storage_calls.hpp"

namespace holdfast::core {
namespace {

using test::record_key;

constexpr std::uint64_t size = output_chunk_bytes;
constexpr WallTime any_time{};

RecordEntry bound(std::uint64_t fence) {
  RecordEntry entry;
  entry.record.version = 1;
  entry.record.incarnation = "i";
  entry.record.bound_to = test::token(fence);
  return entry;
}

StoredRun run_of_fence(std::uint64_t number, std::uint64_t fence) {
  return {.run = {.number = number, .fence = test::token(fence).fence},
          .writer = output_writer(test::token(fence))};
}

TEST(OutputDecisions, ABeginningIsWrittenIntoItsChunks) {
  OutputRange kept;
  const OutputPiece piece{.at = 0, .bytes = std::string(size + 10, 'x')};
  const auto change = append_piece(kept, piece, 64 * size);
  EXPECT_EQ(kept, (OutputRange{.begin = 0, .end = size + 10}));
  ASSERT_EQ(change.writes.size(), 2U);
  EXPECT_FALSE(change.writes[0].appends);
  EXPECT_EQ(change.writes[0].bytes.size(), size);
  EXPECT_EQ(change.writes[1].chunk, 1U);
  EXPECT_FALSE(change.writes[1].appends);
}

TEST(OutputDecisions, AnAppendGoesOnInTheLastChunk) {
  OutputRange kept{.begin = 0, .end = size + 10};
  const OutputPiece piece{.at = size + 10, .bytes = std::string(size, 'x')};
  const auto change = append_piece(kept, piece, 64 * size);
  ASSERT_EQ(change.writes.size(), 2U);
  EXPECT_TRUE(change.writes[0].appends);
  EXPECT_EQ(change.writes[0].bytes.size(), size - 10);
  EXPECT_FALSE(change.writes[1].appends);
}

TEST(OutputDecisions, ChunksThatAreNoLongerKeptAreDropped) {
  OutputRange kept{.begin = 2 * size, .end = 5 * size};
  const OutputPiece piece{.at = 5 * size, .bytes = "x"};
  const auto change = append_piece(kept, piece, size);
  EXPECT_EQ(kept, (OutputRange{.begin = 4 * size, .end = 5 * size + 1}));
  EXPECT_EQ(change.drop_from, 2U);
  EXPECT_EQ(change.drop_to, 4U);
}

TEST(OutputDecisions, ARepetitionChangesNothing) {
  OutputRange kept{.begin = 0, .end = 20};
  const OutputPiece piece{.at = 5, .bytes = "within it"};
  EXPECT_TRUE(append_piece(kept, piece, size).writes.empty());
  EXPECT_EQ(kept, (OutputRange{.begin = 0, .end = 20}));
}

TEST(OutputDecisions, AGapInTheLastChunkReplacesIt) {
  OutputRange kept{.begin = 0, .end = size + 10};
  const OutputPiece piece{.at = size + 20, .bytes = "x"};
  const auto change = append_piece(kept, piece, 64 * size);
  EXPECT_EQ(kept, (OutputRange{.begin = size + 20, .end = size + 21}));
  EXPECT_EQ(change.drop_from, 0U);
  EXPECT_EQ(change.drop_to, 1U);
  ASSERT_EQ(change.writes.size(), 1U);
  EXPECT_EQ(change.writes[0].chunk, 1U);
  EXPECT_FALSE(change.writes[0].appends);
}

TEST(OutputDecisions, AGapDropsNoMoreChunksThanThereWere) {
  OutputRange kept{.begin = 0, .end = size + 10};
  const OutputPiece piece{.at = 1'000'000 * size, .bytes = "x"};
  EXPECT_EQ(append_piece(kept, piece, size).drop_to, 2U);
}

TEST(OutputDecisions, ARunIsThatOfItsFence) {
  const auto there = bound(5);
  const std::vector<StoredRun> runs{run_of_fence(3, 5)};
  const AppendOutput same{.key = record_key("o:t"), .fence = test::token(5)};
  const auto again = decide_append(same, &there, runs, any_time);
  EXPECT_EQ(std::get<OutputChange>(again).run.run.number, 3U);
  EXPECT_FALSE(std::get<OutputChange>(again).bound_to);
  const AppendOutput next{.key = record_key("o:t"), .fence = test::token(6)};
  const auto another = decide_append(next, &there, runs, any_time);
  EXPECT_EQ(std::get<OutputChange>(another).run.run.number, 4U);
  EXPECT_EQ(std::get<OutputChange>(another).bound_to, test::token(6));
}

TEST(OutputDecisions, AnOperatorsRebindBeginsAnotherRunThoughItsFenceIsTheSame) {
  auto there = bound(5);
  there.record.bound_to = test::token(5, "another lock");
  const AppendOutput request{.key = record_key("o:t"), .fence = test::token(5, "another lock")};
  const auto change = decide_append(request, &there, {run_of_fence(1, 5)}, any_time);
  EXPECT_EQ(std::get<OutputChange>(change).run.run.number, 2U);
}

TEST(OutputDecisions, TheOldestRunMakesRoom) {
  const auto there = bound(9);
  std::vector<StoredRun> runs;
  for (std::uint64_t i = 1; i <= max_output_runs; ++i) runs.push_back(run_of_fence(i + 10, i));
  const AppendOutput request{.key = record_key("o:t"), .fence = test::token(9)};
  const auto change = decide_append(request, &there, runs, any_time);
  EXPECT_EQ(std::get<OutputChange>(change).drop_runs, 11U);
}

TEST(OutputDecisions, ALateFenceIsRefused) {
  const auto there = bound(5);
  const AppendOutput late{.key = record_key("o:t"), .fence = test::token(4)};
  EXPECT_TRUE(
      std::holds_alternative<FenceRefused>(decide_append(late, &there, {run_of_fence(1, 4)}, any_time)));
  EXPECT_TRUE(std::holds_alternative<NoRecord>(decide_append(late, nullptr, {}, any_time)));
}

}  // namespace
}  // namespace holdfast::core
