#include <gtest/gtest.h>

#include "view/top_fixture.hpp"

namespace holdfast::cli::top {
namespace {

using namespace std::chrono_literals;
using Name = Key::Name;

class TopFrame : public testing::Test {
 protected:
  void fill() {
    shown.add_lock("a/very/long/key/that/does/not/fit/anywhere/near/the/width", "", 1, 3000s, 3000s,
                   std::nullopt);
    shown.add_lock("deploy", "alice@web-3:812 make", 7, 24s, 30s, 2);
    shown.add_lock("日本語", "x\x1b[31m\xe2\x80\xaey", 12, 2s, 30s);
    shown.add_lock("late", "bob@db:9 psql", 3, -1s, 30s);
  }
  /// All lines have the width of the screen at most, and there are as many as it has.
  void expect_fits() {
    const auto frame = shown.frame();
    EXPECT_EQ(frame.lines.size(), shown.size.lines);
    for (const auto& line : frame.lines) {
      EXPECT_LE(columns_of(line.text()), shown.size.columns) << line.text();
    }
  }
  Shown shown;
};

TEST_F(TopFrame, LocksAt80x24) {
  fill();
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
[1 Locks 4] 2 Tasks 0  3 Events                                           by key
KEY                     HOLDER                FENCE  LEASE            WAIT  HELD
a/very/long/key/that/…  -                         1  ██████████ 50m      -  0.0s
deploy                  alice@web-3:812 make      7  ████████░░ 24s      2  6.0s
late                    bob@db:9 psql             3  expired?            0   31s
日本語                  x\x1b[31m\xe2\x80\x…     12  ▋░░░░░░░░░ 2.0s     0   28s

q quit  ? help  Enter details  / filter  s sort  b break  Space pause
)");
  expect_fits();
}

TEST_F(TopFrame, LocksAt40x10) {
  fill();
  shown.size = {.columns = 40, .lines = 10};
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.i…  0.4s old
[1 Locks 4] 2 Tasks 0  3 Events   by key
KEY                          LEASE
a/very/long/key/that/does/…  ██████ 50m
deploy                       ████▊░ 24s
late                         expired?
日本語                       ▍░░░░░ 2.0s

q quit  ? help  Enter details  / filter
)");
  expect_fits();
}

TEST_F(TopFrame, LocksAt160x50) {
  fill();
  shown.size = {.columns = 160, .lines = 50};
  EXPECT_EQ(
      shown.text(),
      R"(holdfast top  redis://cache.internal                                                                                                                    0.4s old
[1 Locks 4] 2 Tasks 0  3 Events                                                                                                                           by key
KEY                                                        HOLDER                                                   FENCE  LEASE                      WAIT  HELD
a/very/long/key/that/does/not/fit/anywhere/near/the/width  -                                                            1  ████████████████████ 50m      -  0.0s
deploy                                                     alice@web-3:812 make                                         7  ████████████████░░░░ 24s      2  6.0s
late                                                       bob@db:9 psql                                                3  expired?                      0   31s
日本語                                                     x\x1b[31m\xe2\x80\xaey                                      12  █▍░░░░░░░░░░░░░░░░░░ 2.0s     0   28s

q quit  ? help  Enter details  / filter  s sort  b break  Space pause
)");
  expect_fits();
}

TEST_F(TopFrame, LocksWithoutUnicode) {
  fill();
  shown.unicode = false;
  shown.state.filter = "deploy";
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
[1 Locks 4] 2 Tasks 0  3 Events                                   /deploy 1 of 4
KEY         HOLDER                            FENCE  LEASE            WAIT  HELD
deploy      alice@web-3:812 make                  7  ########.. 24s      2  6.0s

q quit  ? help  Enter details  / filter  s sort  b break  Space pause
)");
}

TEST_F(TopFrame, Tasks) {
  auto& backup = shown.add_task("bob", "t-1", "backup", TaskStatus::working);
  backup.progress = 0.42;
  backup.has_worker = true;
  backup.worker = "root@vm:1 sh";
  shown.add_task("alice", "6e31cce8-5ea7-442f-9ba9-4280d759f60d", "", TaskStatus::input_required)
      .progress_text = "step 3 of 7";
  shown.type("2");
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
 1 Locks 0 [2 Tasks 2] 3 Events                                           by age
OWNER  METHOD             STATUS          PROGRESS       WORKER              AGE
bob    backup             working         ███▍░░░░ 42%   root@vm:1 sh       3.0m
alice  6e31cce8-5ea7-44…  input_required  step 3 of 7    -                  3.0m

q quit  ? help  Enter details  / filter  s sort  c cancel  Space pause
)");
  shown.size.columns = 40;
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.i…  0.4s old
 1 Locks 0 [2 Tasks 2] 3 Events   by age
METHOD              STATUS          DONE
backup              working          42%
6e31cce8-5ea7-442…  input_required  ste…

q quit  ? help  Enter details  / filter
)");
  shown.press({.name = Name::enter});
  expect_fits();
  shown.size.columns = 60;
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                0.4s old
 1 Locks 0 [2 Tasks 2] 3 Events                       by age

 owner           bob
 task            t-1
 method          backup
 status          working
 progress        42 %
 worker          root@vm:1 sh
 created         2026-02-28 23:57:00Z  (3.0m ago)
 updated         unknown
 expires         never
 version         0
 highest fence   none

q quit  ? help  Esc back  c cancel  Space pause
)");
}

TEST_F(TopFrame, Events) {
  auto& granted = shown.add_event(view::EventKind::lock_granted);
  granted.key = "deploy";
  granted.fence = Fence::of(8).value_or_throw();
  granted.old_fence = Fence::of(7).value_or_throw();
  granted.holder = "alice@web-3:812 make";
  shown.add_event(view::EventKind::store_unreachable).text = "connection refused";
  shown.type("3");
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
 1 Locks 0  2 Tasks 0 [3 Events]
TIME UTC  EVENT          LOCK OR TASK                DETAILS
00:00:00  unreachable    connection refused
00:00:00  lock granted   deploy                      fence 8 after 7 alice@web-…

q quit  ? help  Enter details  / filter  Space pause
)");
  shown.press({.name = Name::enter});
  expect_fits();
}

TEST_F(TopFrame, Queues) {
  auto& mail = shown.add_queue("mail\x1b[2J", 12, 0);
  mail.oldest_ready = Shown::midnight - std::chrono::minutes(42);
  mail.delayed = 3;
  auto& render = shown.add_queue("render", 0, 4);
  render.limit = 8;
  render.paused = true;
  shown.type("4");
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
 1 Locks 0  2 Tasks 0  3 Events [4 Queues 2]                             by name
QUEUE            STATE     READY  DELAYED    WORKING  EXHAUSTED    TASKS  OLDEST
mail\x1b[2J      active       12        3          0          0       12     42m
render           paused        0        0        4/8          0        4       -

q quit  ? help  Enter details  / filter  s sort  Space pause
)");
  expect_fits();
  shown.size.columns = 40;
  EXPECT_EQ(shown.frame().lines[1].text(), " 1 Locks  2 Tasks  3 Events [4 Queues 2]")
      << "all tabs, one count";
  for (int i = 0; i < 10; ++i) shown.add_queue("queue " + std::to_string(i), 0, 0);
  EXPECT_EQ(shown.frame().lines[1].text(), " 1 Locks  2 Tasks  3 Events [4 Queues]");
  shown.size.columns = 80;
  shown.type("s");  // by ready: most first
  EXPECT_EQ(shown.rows().queues.front()->name, "mail\x1b[2J");
  shown.type("s");  // by working
  EXPECT_EQ(shown.rows().queues.front()->name, "render");
  shown.press({.name = Name::enter});
  expect_fits();
  EXPECT_NE(shown.text().find("paused: no task is claimed"), std::string::npos) << shown.text();
  EXPECT_NE(shown.text().find("finished ones included"), std::string::npos);
}

TEST_F(TopFrame, TheReasonForBreakingIsAskedFor) {
  fill();
  shown.press({.name = Name::down});
  shown.type("bweb-3 is down");
  EXPECT_EQ(shown.text(), R"(holdfast top  redis://cache.internal                                    0.4s old
[1 Locks 4] 2 Tasks 0  3 Events                                           by key
KEY                     HOLDER                FENCE  LEASE            WAIT  HELD
a/very/long/key/that/…  -                         1  ██████████ 50m      -  0.0s
deploy                  alice@web-3:812 make      7  ████████░░ 24s      2  6.0s
late                    bob@db:9 psql             3  expired?            0   31s
日本語                  x\x1b[31m\xe2\x80\x…     12  ▋░░░░░░░░░ 2.0s     0   28s

Break deploy, held by alice@web-3:812 make
Fence 7. Until the holder notices, only fence checks reject its writes.
Enter breaks the lock, Esc does nothing.
Reason: web-3 is down
)");
  EXPECT_EQ(shown.frame().cursor, std::pair(std::size_t{23}, std::size_t{21}));
  shown.size = {.columns = 40, .lines = 5};
  EXPECT_EQ(shown.frame().lines.back().text(), "Reason: web-3 is down");
  expect_fits();
}

TEST_F(TopFrame, AStoreThatIsDownSaysSinceWhenAndWhy) {
  fill();
  shown.snapshot.reachability = view::Reachability::down;
  shown.snapshot.down_since = Shown::now - 12s;
  shown.snapshot.error = "cannot connect to cache.internal:6379 (Connection refused)";
  EXPECT_EQ(shown.frame().lines[0].text(),
            "holdfast top  redis://cache.internal                         unreachable for 12s");
  EXPECT_EQ(shown.frame().lines[2].text(), shown.snapshot.error);
  expect_fits();
}

TEST_F(TopFrame, NothingToShowIsSaid) {
  EXPECT_EQ(shown.frame().lines[3].text(), " no lock is held");
  shown.snapshot.whole = false;
  EXPECT_EQ(shown.frame().lines[3].text(), "");
  EXPECT_NE(shown.text().find("reading"), std::string::npos);
}

TEST_F(TopFrame, AnySizeIsComposed) {
  fill();
  shown.add_task("alice", "t", "report", TaskStatus::working);
  shown.add_event(view::EventKind::lock_granted).key = "deploy";
  shown.add_queue("render", 1, 1);
  for (const char* keys : {"1", "2", "3", "4", "?", "1b", "2c"}) {
    for (const std::size_t columns : {10U, 11U, 20U, 39U, 51U, 52U, 75U, 76U, 119U, 120U, 300U}) {
      for (const std::size_t lines : {3U, 4U, 5U, 10U, 60U}) {
        shown.state = {};
        shown.size = {.columns = columns, .lines = lines};
        shown.type(keys);
        expect_fits();
        if (shown.state.mode != Mode::table) continue;
        shown.press({.name = Name::enter});
        expect_fits();
      }
    }
  }
}

TEST(TopCells, TextIsCutAtColumnsNotBytes) {
  EXPECT_EQ(columns_of("日本"), 4U);
  EXPECT_EQ(cut("日本語", 5, "…"), "日本…");
  EXPECT_EQ(cut("日本語", 4, "…"), "日…");
  EXPECT_EQ(cut("abc", 3, "…"), "abc");
  EXPECT_EQ(cut("abcd", 1, "…"), "a");
  EXPECT_EQ(columns_of("e\u0301"), 1U);
}

TEST(TopCells, ManyCombiningCharactersAreDropped) {
  std::string piled = "e";
  for (int i = 0; i < 50; ++i) piled += "\u0301";
  EXPECT_EQ(safe(piled), "e\u0301\u0301\u0301");
  EXPECT_EQ(safe("\u0301x"), "x");
  EXPECT_EQ(safe("a\x1b[2Jb\n"), "a\\x1b[2Jb\\x0a");
}

TEST(TopCells, LongTextIsWrapped) {
  EXPECT_EQ(wrapped("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_EQ(wrapped("", 3), std::vector<std::string>{""});
}

TEST(TopCells, DurationsTakeFourColumns) {
  const auto text = [](std::chrono::milliseconds length) { return short_duration(length); };
  EXPECT_EQ(text(-5ms), "0.0s");
  EXPECT_EQ(text(449ms), "0.4s");
  EXPECT_EQ(text(24s), "24s");
  EXPECT_EQ(text(118s), "1.9m");
  EXPECT_EQ(text(99min), "99m");
  EXPECT_EQ(text(150min), "2.5h");
  EXPECT_EQ(text(47h), "47h");
  EXPECT_EQ(text(72h), "3d");
  EXPECT_EQ(text(24h * 5000), "999d");
}

TEST(TopCells, BarsAreFilledByEighths) {
  EXPECT_EQ(bar(0, 4, true), "░░░░");
  EXPECT_EQ(bar(0.5, 4, true), "██░░");
  EXPECT_EQ(bar(0.53125, 4, true), "██▏░");
  EXPECT_EQ(bar(2, 4, true), "████");
  EXPECT_EQ(bar(0.5, 4, false), "##..");
}

}  // namespace
}  // namespace holdfast::cli::top
