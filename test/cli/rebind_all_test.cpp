#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "output_parts.hpp"
#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"
#include "support/raw_redis.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

/// A store with tasks and registers that locks of the authority `lost` guard, and some that others do.
class RebindAll : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("redis")) {
      if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
      server.emplace();
    }
    engine.emplace(open(engine_url()));
    tasks.emplace(engine->tasks({.allow_anonymous = true}));
  }
  [[nodiscard]] std::string engine_url() const { return server ? server->url() : url(); }

  static FencingToken token(const std::string& authority, std::uint64_t fence, const std::string& key = "k") {
    return {.authority = authority, .lock_key = key, .fence = *Fence::of(fence)};
  }
  [[nodiscard]] std::string bound_task(const std::string& owner, const FencingToken& guard) {
    const auto id = tasks->create(owner).id;
    (void)tasks->bind(owner, id, guard);
    return id;
  }
  [[nodiscard]] std::optional<FencingToken> guard_of(const std::string& owner, const std::string& id) {
    return tasks->get(owner, id).bound_to;
  }
  void put_register(const std::string& name, const FencingToken& guard) {
    (void)engine->fenced_register(name).put("text of " + name, guard);
  }
  [[nodiscard]] FencingToken guard_of_register(const std::string& name) {
    return engine->fenced_register(name).get()->written_by;
  }
  [[nodiscard]] Finished rebind(std::vector<std::string> more, bool as_json = false) const {
    std::vector<std::string> typed{"task", "rebind", "--from-authority", "lost"};
    if (as_json) typed.insert(typed.begin(), "--json");
    typed.insert(typed.end(), more.begin(), more.end());
    return holdfast(typed, {.environment = {"HOLDFAST_URL=" + engine_url()}});
  }
  /// The last line that --json printed.
  static json numbers_of(const Finished& result) { return json::parse(lines_of(result.out).back()); }

  std::optional<RedisServer> server;
  std::optional<Holdfast> engine;
  std::optional<Tasks> tasks;
};

TEST_P(RebindAll, BindsWhatTheLostAuthorityGuardedToTheSameLocksOfThisStore) {
  const auto current = engine->locks().authority();
  const auto one = bound_task("alice", token("lost", 7)), two = bound_task("b:c", token("lost", 90, "other"));
  const auto elsewhere = bound_task("alice", token("elsewhere", 7)),
             lawful = bound_task("bob", token(current, 3));
  const auto unbound = tasks->create("bob").id;
  put_register("leader", token("lost", 12, "leader"));
  put_register("theirs", token("elsewhere", 12));

  const auto result = rebind({"--all-owners", "--yes"}, true);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(guard_of("alice", one), token(current, 1));
  EXPECT_EQ(guard_of("b:c", two), token(current, 1, "other"));
  EXPECT_EQ(guard_of("alice", elsewhere), token("elsewhere", 7));
  EXPECT_EQ(guard_of("bob", lawful), token(current, 3));
  EXPECT_EQ(guard_of("bob", unbound), std::nullopt);
  EXPECT_EQ(guard_of_register("leader"), token(current, 1, "leader"));
  EXPECT_EQ(engine->fenced_register("leader").get()->text, "text of leader");
  EXPECT_EQ(guard_of_register("theirs"), token("elsewhere", 12));

  EXPECT_EQ(lines_of(result.out).size(), 4U) << result.out;
  EXPECT_EQ(
      numbers_of(result),
      json({{"tasks", 2}, {"registers", 1}, {"lookedAt", 7}, {"toAuthority", current}, {"dryRun", false}}));
  EXPECT_NE(result.out.find(R"({"ownerId":"b:c","taskId":")" + two +
                            R"(","key":"other","fence":"000000000000090"})"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(R"({"register":"leader","key":"leader","fence":"000000000000012"})"),
            std::string::npos)
      << result.out;

  EXPECT_EQ(numbers_of(rebind({"--all-owners", "--yes"}, true))["tasks"], 0) << "done is done";
  EXPECT_THROW((void)engine->fenced_register("leader").put("late", token("lost", 13, "leader")), Error)
      << "the old holder is shut out";
  EXPECT_EQ(engine->fenced_register("leader").put("next", engine->locks().lock("leader")), 2U);
}

TEST_P(RebindAll, ADryRunChangesNothing) {
  const auto id = bound_task("alice", token("lost", 7));
  put_register("leader", token("lost", 12));
  const auto result = rebind({"--all-owners", "--dry-run"});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find(id), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("1 task and 1 register to be rebound to"), std::string::npos) << result.err;
  EXPECT_EQ(guard_of("alice", id), token("lost", 7));
  EXPECT_EQ(guard_of_register("leader"), token("lost", 12));
}

TEST_P(RebindAll, OfOneOwnerLeavesTheOthersAlone) {
  const auto mine = bound_task("alice", token("lost", 7)), theirs = bound_task("bob", token("lost", 7));
  put_register("leader", token("lost", 12));
  const auto result = rebind({"--owner", "alice", "--yes", "--to-authority", "there"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("1 task rebound to \"there\""), std::string::npos) << result.err;
  EXPECT_EQ(guard_of("alice", mine), token("there", 1));
  EXPECT_EQ(guard_of("bob", theirs), token("lost", 7));
  EXPECT_EQ(guard_of_register("leader"), token("lost", 12));
}

TEST_P(RebindAll, GoesPageByPageAndNamesWhatItCannotRead) {
  std::vector<std::string> ids;
  for (int i = 0; i < 90; ++i) ids.push_back(bound_task("alice", token("lost", 7)));
  for (int i = 0; i < 230; ++i) put_register("r" + std::to_string(i), token("lost", 1));
  if (server) RawRedis(server->tcp()).command({"HSET", "pmcp:tasks:%register%25:r7", "data", "1"});
  const auto result = rebind({"--all-owners", "--yes"}, true);
  EXPECT_EQ(result.code, server ? 70 : 0) << result.err;
  const auto numbers = numbers_of(result);
  EXPECT_EQ(numbers["tasks"], 90);
  EXPECT_EQ(numbers["registers"], server ? 229 : 230);
  EXPECT_EQ(result.err.find("r7") != std::string::npos, server.has_value()) << result.err;
}

TEST_P(RebindAll, NamesRegistersAndOwnersThatItLeavesOut) {
  auto& storage = tasks->storage();
  test::put(storage, "%register%25:broken", "{}");
  test::put(storage, "50%25off%:t", "{}");
  const auto result = rebind({"--all-owners", "--yes"});
  EXPECT_EQ(result.code, 70);
  EXPECT_NE(result.err.find("a register is left out: the register broken cannot be read"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("an owner is left out: records are stored under the owner \"50%25off%\""),
            std::string::npos)
      << result.err;
}

TEST_P(RebindAll, OneTaskIsReboundByItsIdIfTheLostAuthorityGuardsIt) {
  const auto current = engine->locks().authority();
  const auto id = bound_task("local", token("lost", 7)), other = bound_task("local", token("elsewhere", 7));
  EXPECT_EQ(rebind({id}).code, 0);
  EXPECT_EQ(guard_of("local", id), token(current, 1));
  EXPECT_EQ(rebind({other}).code, 0);
  EXPECT_EQ(rebind({other, "--none"}).code, 0);
  EXPECT_EQ(guard_of("local", other), token("elsewhere", 7));
  EXPECT_EQ(rebind({"nosuch"}).code, 1);
}

TEST_P(RebindAll, IsRefusedWhereItCannotBeMeant) {
  const auto id = bound_task("local", token("lost", 7));
  const auto refused = [&](const std::vector<std::string>& more, const std::string& because) {
    const auto result = rebind(more);
    EXPECT_EQ(result.code, 64) << because;
    EXPECT_NE(result.err.find(because), std::string::npos) << result.err;
  };
  refused({"--all-owners"}, "--dry-run to list them, or --yes to rebind them");
  refused({"--all-owners", "--yes", "--none"}, "are for one task");
  refused({"--all-owners", "--yes", "--to-authority", "lost"}, "is the same as --from-authority");
  refused({id, "--yes"}, "omit the ID");
  refused({id, "--none", "--to-authority", "x"}, "--to-authority");
  const auto current = engine->locks().authority();
  const auto alive = holdfast({"task", "rebind", "--from-authority", current, "--all-owners", "--yes"},
                              {.environment = {"HOLDFAST_URL=" + engine_url()}});
  EXPECT_EQ(alive.code, 64);
  EXPECT_NE(alive.err.find("is not lost"), std::string::npos) << alive.err;
  EXPECT_EQ(holdfast({"task", "rebind"}).code, 64);
  EXPECT_EQ(guard_of("local", id), token("lost", 7));
}

TEST_P(RebindAll, CountsAndAsksOnATerminal) {
  const auto id = bound_task("local", token("lost", 7));
  for (const auto& [answer, code] : {std::pair{"n\n", "code=1."}, {"y\n", "code=0."}}) {
    EXPECT_EQ(guard_of("local", id), token("lost", 7));
    Pty terminal(
        {"sh", "-c", holdfast_program() + " task rebind --from-authority lost --all-owners; echo code=$?."},
        {"HOLDFAST_URL=" + engine_url()});
    EXPECT_TRUE(terminal.shows("1 task and 0 registers bound to locks of the authority \"lost\""))
        << terminal.screen();
    ASSERT_TRUE(terminal.shows("[y/N] ")) << terminal.screen();
    terminal.type(answer);
    EXPECT_TRUE(terminal.shows(code)) << terminal.screen();
  }
  EXPECT_EQ(guard_of("local", id), token(engine->locks().authority(), 1));
}

class RebindNative : public CliTest {};

TEST_F(RebindNative, NeedsTheNewAuthorityBecauseThatOfTheStoreCountsNoFences) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  const Program::Options where{.environment = {"HOLDFAST_URL=" + server.url() + "?layout=native"}};
  auto engine = open(server.url() + "?layout=native");
  auto tasks = engine.tasks({.allow_anonymous = true});
  const auto id = tasks.create("alice").id;
  const FencingToken lost{.authority = "lost", .lock_key = "k", .fence = *Fence::of(7)};
  (void)tasks.bind("alice", id, lost);
  for (const auto& arguments :
       {std::vector<std::string>{"--all-owners", "--yes"}, {id, "--owner", "alice"}}) {
    std::vector<std::string> typed{"task", "rebind", "--from-authority", "lost"};
    typed.insert(typed.end(), arguments.begin(), arguments.end());
    const auto refused = holdfast(typed, where);
    EXPECT_EQ(refused.code, 64);
    EXPECT_NE(refused.err.find("--to-authority is missing"), std::string::npos) << refused.err;
    EXPECT_EQ(tasks.get("alice", id).bound_to, lost);
  }
  EXPECT_EQ(holdfast({"run", "k", "--", "sh", "-c",
                      holdfast_program() +
                          " task rebind --from-authority lost --to-authority \"$HOLDFAST_AUTHORITY\" "
                          "--all-owners --yes"},
                     where)
                .code,
            0);
  const auto guard = engine.locks().lock("k");
  EXPECT_EQ(tasks.get("alice", id).bound_to->authority, guard.authority());
}

INSTANTIATE_TEST_SUITE_P(Engine, RebindAll, testing::Values("sqlite", "redis"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace holdfast::test
