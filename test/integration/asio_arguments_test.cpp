// Arguments as they are written in co_await expressions: in braces, with temporaries, in every call. g++ 12
// destroys some of them twice (docs/adr/0006-arguments-are-views.md), which AddressSanitizer sees; so does it
// see an operation that begins, or goes on, with text that is gone.

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <holdfast/asio.hpp>
#include <holdfast/holdfast.hpp>

#include "support/asio_thread.hpp"
#include "support/asio_tokens.hpp"
#include "support/own_store.hpp"

namespace holdfast::test {
namespace {

using asio::awaitable;
using namespace std::chrono_literals;

/// Longer than what a std::string holds without the heap.
std::string text(std::string_view name) {
  return std::string(name) + "-longer-than-the-small-string-of-any-library";
}

Json object(std::string_view name) {
  return Json::parse("{\"" + text(name) + "\":1}").value_or_throw();
}

class AsioArguments : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "redis") {
      if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    }
    own.emplace(GetParam());
    holdfast.emplace(open(own->url()));
    locks.emplace(asio.executor(), holdfast->locks());
    tasks.emplace(asio.executor(), holdfast->tasks());
    state.emplace(asio.executor(), holdfast->fenced_register("state"));
  }
  void run(awaitable<void> body) { asio::co_spawn(asio.executor(), std::move(body), asio::use_future).get(); }

  std::optional<OwnStore> own;
  AsioThread asio;
  std::optional<Holdfast> holdfast;
  std::optional<AsyncLocks> locks;
  std::optional<AsyncTasks> tasks;
  std::optional<AsyncRegister> state;
};

awaitable<void> every_call_on_locks(AsyncLocks on) {
  auto guard = co_await on.lock(text("a"), {.ttl = 30s, .wait = 5s});
  EXPECT_EQ(guard.key(), text("a"));
  auto tried = co_await on.try_lock(text("b"), {.ttl = 30s, .max_hold = 20s});
  EXPECT_TRUE(tried.has_value());
  const auto acquired = co_await on.acquire(text("c"), {.ttl = 30s});
  EXPECT_TRUE(co_await on.extend(std::string(acquired.id.str()), 40s));
  auto adopted = co_await on.adopt({.key = text("c"),
                                    .id = acquired.id,
                                    .ttl = acquired.ttl,
                                    .fence = acquired.fence,
                                    .authority = on.authority()},
                                   {.ttl = 30s});
  EXPECT_EQ(adopted.value().key(), text("c"));
  EXPECT_TRUE((co_await adopted->detach()).has_value());
  adopted = co_await on.adopt(acquired);
  EXPECT_TRUE(adopted.has_value());
  EXPECT_TRUE(co_await on.is_locked(text("c")));
  EXPECT_TRUE(co_await on.get_by_key(text("c")));
  EXPECT_TRUE(co_await on.get_by_key_raw(text("c")));
  EXPECT_TRUE(co_await on.get_by_id(std::string(acquired.id.str())));
  EXPECT_TRUE(co_await on.get_by_id_raw(std::string(acquired.id.str())));
  EXPECT_TRUE(co_await on.owns(text("c"), std::string(acquired.id.str())));
  std::size_t listed = 0;
  std::string cursor;
  do {
    const auto page = co_await on.list_raw({.cursor = cursor + "", .limit = 1});
    listed += page.locks.size();
    cursor = page.cursor;
  } while (!cursor.empty());
  EXPECT_EQ(listed, 3U);
  EXPECT_EQ((co_await on.list_raw()).locks.size(), 3U);
  const auto a = LockKey::parse(text("a")).value_or_throw();
  const auto waiters = co_await on.count_waiters({&a, 1});
  EXPECT_EQ(waiters.at(0), 0U);
  EXPECT_TRUE(co_await on.break_lock(text("a"), text("a reason")));
  EXPECT_TRUE(co_await on.break_lock(text("b"), text("a reason"), tried->fence()));
  EXPECT_TRUE(co_await on.release(std::string(acquired.id.str())));
  auto held = co_await on.lock(text("d"));
  EXPECT_TRUE(co_await held.extend(40s));
  EXPECT_TRUE(co_await held.release());
}

TEST_P(AsioArguments, AreWrittenInEveryCallOnLocks) {
  run(every_call_on_locks(*locks));
}

awaitable<void> every_call_on_tasks(AsyncTasks on, AsyncLocks locks) {
  const auto made = co_await on.create("alice", {.method = text("method"),
                                                 .ttl = 10min,
                                                 .poll_interval = 1s,
                                                 .variables = object("variables"),
                                                 .request_key = text("request")});
  EXPECT_EQ(made.request_method, text("method"));
  EXPECT_EQ(made.variables, object("variables"));
  const auto again =
      co_await on.create(std::string("alice"), NewTask{.method = text("method"),
                                                       .ttl = 10min,
                                                       .poll_interval = 1s,
                                                       .variables = *Json::parse(made.variables.str()),
                                                       .request_key = text("request")});
  EXPECT_EQ(again.id, made.id);
  const auto other = co_await on.create(text("owner"), {.method = "a-name-longer-than-the-small-string"});
  EXPECT_EQ((co_await on.get(text("owner"), std::string(other.id))).owner, text("owner"));
  // In another call's arguments.
  const auto third = co_await on.get("alice", on.blocking().create("alice", {.method = text("third")}).id);
  EXPECT_EQ(third.request_method, text("third"));
  (void)co_await on.create("alice");

  const auto page = co_await on.list("alice", {.limit = 1});
  EXPECT_EQ(
      (co_await on.list("alice", {.cursor = page.cursor + "", .status = TaskStatus::working, .limit = 9}))
          .tasks.size(),
      2U);
  EXPECT_EQ((co_await on.list(std::string("alice"))).tasks.size(), 3U);
  std::size_t owners = 0;
  std::string cursor;
  do {
    const auto some = co_await on.owners({.cursor = cursor + "", .limit = 1});
    owners += some.owners.size();
    cursor = some.cursor;
  } while (!cursor.empty());
  EXPECT_EQ(owners, 2U);
  EXPECT_EQ((co_await on.owners()).owners.size(), 2U);

  const auto id = made.id;
  EXPECT_EQ(
      (co_await on.update_status("alice", id, TaskStatus::input_required, text("which?"))).status_message,
      text("which?"));
  EXPECT_EQ((co_await on.update_status("alice", id, TaskStatus::working, {text("go on")})).status_message,
            text("go on"));
  EXPECT_EQ((co_await on.update_status("alice", id, TaskStatus::input_required)).status_message,
            std::nullopt);
  EXPECT_EQ((co_await on.set_variables("alice", id, object("changes"))).version, 5U);
  EXPECT_EQ((co_await on.set_result("alice", id, *Json::parse("\"" + text("r") + "\""))).version, 6U);
  const auto guard = co_await locks.lock(text("lock"));
  EXPECT_TRUE(
      (co_await on.bind(
           "alice", id,
           {.authority = std::string(guard.authority()), .lock_key = text("lock"), .fence = guard.fence()}))
          .bound_to);
  EXPECT_EQ((co_await on
                 .with_fence({.authority = std::string(guard.authority()),
                              .lock_key = text("lock"),
                              .fence = guard.fence()})
                 .update_status("alice", id, TaskStatus::working, text("fenced")))
                .status_message,
            text("fenced"));
  EXPECT_EQ(
      (co_await on.rebind("alice", id,
                          {{.authority = text("elsewhere"), .lock_key = text("k"), .fence = *Fence::of(7)}}))
          .bound_to->lock_key,
      text("k"));
  EXPECT_EQ((co_await on.rebind(
                 "alice", id,
                 FencingTokenView{.authority = text("x"), .lock_key = text("y"), .fence = *Fence::of(7)}))
                .bound_to->lock_key,
            text("y"));
  EXPECT_EQ(
      (co_await on.rebind_from(text("x"), "alice", id,
                               {{.authority = text("to"), .lock_key = text("y"), .fence = *Fence::of(1)}}))
          .bound_to->authority,
      text("to"));
  EXPECT_FALSE((co_await on.rebind("alice", id, {})).bound_to);
  EXPECT_EQ((co_await on.complete_with_result("alice", id, object("result"), text("done"))).result,
            object("result"));
  EXPECT_EQ(co_await on.get_result("alice", std::string(id)), object("result"));
  EXPECT_EQ((co_await on.wait("alice", std::string(id), 10s))->status_message, text("done"));
  const auto wanted = text("done");
  EXPECT_TRUE(
      co_await on.wait("alice", id, 10s, [&](const Task& task) { return task.status_message == wanted; }));
  const auto is_done = [wanted](const Task& task) { return task.status_message == wanted; };
  EXPECT_TRUE(co_await on.wait("alice", id, 10s, is_done));
  EXPECT_TRUE(co_await on.remove("alice", std::string(id)));
  EXPECT_EQ((co_await on.fail("alice", third.id, text("no"))).status_message, text("no"));
  EXPECT_EQ((co_await on.fail_with_result(text("owner"), other.id, object("why"), text("no"))).result,
            object("why"));
  const auto fourth = co_await on.create("alice", {});
  EXPECT_EQ((co_await on.cancel("alice", fourth.id, {text("never mind")})).status_message,
            text("never mind"));
  (void)co_await on.cleanup_expired();
}

TEST_P(AsioArguments, AreWrittenInEveryCallOnTasks) {
  run(every_call_on_tasks(*tasks, *locks));
}

// A closure cannot be made safe, but refused.
[[maybe_unused]] const auto owning = [of = std::string()](const Task&) { return of.empty(); };
using Owning = std::remove_const_t<decltype(owning)>;
static_assert(detail::survives_co_await<const Owning&, asio::use_awaitable_t<>>);
static_assert(detail::survives_co_await<Owning, asio::use_future_t<>>);
static_assert(detail::survives_co_await<std::function<bool(const Task&)>, asio::use_awaitable_t<>>);
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
static_assert(!detail::survives_co_await<Owning, asio::use_awaitable_t<>>);
#endif

awaitable<void> every_call_on_claims(AsyncTasks on) {
  const auto made = co_await on.create("alice", {.method = text("method")});
  auto claim = co_await on.claim(std::string("alice"), std::string(made.id), {.ttl = 30s, .wait = 5s});
  EXPECT_EQ((co_await claim.set_variables(object("changes"))).variables, object("changes"));
  EXPECT_EQ((co_await claim.update_status(TaskStatus::input_required, text("which?"))).status_message,
            text("which?"));
  EXPECT_EQ((co_await claim.update_status(TaskStatus::working)).status_message, std::nullopt);
  EXPECT_TRUE(co_await claim.release());
  claim = co_await on.claim("alice", made.id);
  EXPECT_EQ((co_await claim.complete(object("result"), {text("done")})).status_message, text("done"));
  claim = co_await on.claim("alice", (co_await on.create("alice", {.method = text("second")})).id);
  EXPECT_EQ((co_await claim.fail(text("no"))).status_message, text("no"));
  claim = co_await on.claim("alice", (co_await on.create("alice")).id);
  EXPECT_EQ((co_await claim.fail_with_result(object("why"), text("no"))).result, object("why"));
}

TEST_P(AsioArguments, AreWrittenInEveryCallOnClaims) {
  run(every_call_on_claims(*tasks));
}

awaitable<void> every_call_on_registers(AsyncRegister on, AsyncLocks locks) {
  const auto guard = co_await locks.lock(text("leader"));
  EXPECT_EQ(co_await on.put(text("value"), {.authority = std::string(guard.authority()),
                                            .lock_key = text("leader"),
                                            .fence = guard.fence()}),
            1U);
  EXPECT_EQ((co_await on.get())->text, text("value"));
  EXPECT_EQ(
      (co_await on.bind(
           {.authority = std::string(guard.authority()), .lock_key = text("leader"), .fence = guard.fence()}))
          ->text,
      text("value"));
  EXPECT_TRUE(co_await on.rebind({.authority = text("x"), .lock_key = text("y"), .fence = guard.fence()}));
  EXPECT_EQ((co_await on.rebind_from(
                 text("x"), {.authority = text("to"), .lock_key = text("y"), .fence = guard.fence()}))
                ->written_by.authority,
            text("to"));
  EXPECT_EQ((co_await on.get())->written_by.lock_key, text("y"));
}

TEST_P(AsioArguments, AreWrittenInEveryCallOnRegisters) {
  run(every_call_on_registers(*state, *locks));
}

/// What operations are begun with here; gone when they begin.
struct Texts {
  std::string key = text("key");
  std::string owner = text("owner");
  std::string method = text("method");
  std::string message = text("message");
  Json json = object("name");
};

// The two tokens that begin an operation later than it is called.

struct Awaitable {
  static constexpr auto token = asio::use_awaitable;
  template <class T>
  static T result(const asio::any_io_executor& executor, awaitable<T> operation) {
    std::optional<T> value;
    asio::co_spawn(executor, keep(std::move(operation), value), asio::use_future).get();
    return *std::move(value);
  }
  template <class T>
  static awaitable<void> keep(awaitable<T> operation, std::optional<T>& value) {
    T awaited = co_await std::move(operation);
    value.emplace(std::move(awaited));
  }
};
struct Deferred {
  static constexpr auto token = asio_tokens::deferred;
  static auto result(const asio::any_io_executor&, auto operation) {
    return std::move(operation)(asio::use_future).get();
  }
};

/// Calls `call(texts)`, then awaits the operation that it returns.
template <class Later>
auto later(const asio::any_io_executor& executor) {
  return [executor](auto call) {
    auto texts = std::make_unique<Texts>();
    auto operation = call(*texts);
    texts.reset();
    return Later::result(executor, std::move(operation));
  };
}

template <class Later>
void call_locks_later(AsyncLocks on) {
  constexpr auto token = Later::token;
  const auto with = later<Later>(on.get_executor());
  auto guard = with([&](const Texts& t) { return on.lock(t.key, {}, token); });
  EXPECT_EQ(guard.key(), text("key"));
  EXPECT_FALSE(with([&](const Texts& t) { return on.try_lock(t.key, {}, token); }).has_value());
  EXPECT_TRUE(guard.release(asio::use_future).get());
  const auto acquired = with([&](const Texts& t) { return on.acquire(t.key, {}, token); });
  const auto adopted = with([&](const Texts& t) {
    return on.adopt(
        {.key = t.key, .id = acquired.id, .ttl = acquired.ttl, .fence = acquired.fence, .authority = t.owner},
        {}, token);
  });
  EXPECT_EQ(adopted.value().key(), text("key"));
  EXPECT_EQ(adopted->authority(), text("owner"));
  const auto id = [&] { return std::string(acquired.id.str()); };
  EXPECT_TRUE(with([&](const Texts& t) { return on.is_locked(t.key, token); }));
  EXPECT_TRUE(with([&](const Texts& t) { return on.get_by_key(t.key, token); }));
  EXPECT_TRUE(with([&](const Texts& t) { return on.get_by_key_raw(t.key, token); }));
  EXPECT_TRUE(with([&](const Texts& t) { return on.owns(t.key, id(), token); }));
  EXPECT_TRUE(with([&](const Texts&) { return on.get_by_id(id(), token); }));
  EXPECT_TRUE(with([&](const Texts&) { return on.get_by_id_raw(id(), token); }));
  EXPECT_TRUE(with([&](const Texts&) { return on.extend(id(), 40s, token); }));
  const auto other = on.blocking().lock(text("other"));
  const auto cursor = on.blocking().list_raw({.limit = 1}).cursor;
  const auto page = with([&](const Texts&) { return on.list_raw({.cursor = cursor + ""}, token); });
  EXPECT_LE(page.locks.size(), 2U);
  const auto waiters = with([&](const Texts& t) {
    return on.count_waiters(std::vector{LockKey::parse(t.key).value_or_throw()}, token);
  });
  EXPECT_EQ(waiters, WaiterCounts(1, 0U));
  EXPECT_TRUE(with([&](const Texts& t) { return on.break_lock(t.key, t.message, token); }));
  EXPECT_TRUE(
      with([&](const Texts& t) { return on.break_lock(text("other"), t.message, other.fence(), token); }));
  EXPECT_FALSE(with([&](const Texts&) { return on.release(id(), token); }));
}

TEST_P(AsioArguments, OfLocksMayEndBeforeTheOperationBegins) {
  call_locks_later<Awaitable>(*locks);
  call_locks_later<Deferred>(*locks);
}

template <class Later>
void call_tasks_later(AsyncTasks on, const std::string& owner) {
  constexpr auto token = Later::token;
  const auto with = later<Later>(on.get_executor());
  const auto made = with([&](const Texts& t) {
    return on.create(owner + "", {.method = t.method, .variables = t.json, .request_key = t.key}, token);
  });
  EXPECT_EQ(made.request_method, text("method"));
  EXPECT_EQ(made.variables, object("name"));
  const auto id = made.id;
  EXPECT_EQ(with([&](const Texts&) { return on.get(owner + "", id + "", token); }).owner, owner);
  (void)on.blocking().create(owner);
  const auto cursor = on.blocking().list(owner, {.limit = 1}).cursor;
  const auto page = with([&](const Texts&) { return on.list(owner + "", {.cursor = cursor + ""}, token); });
  EXPECT_EQ(page.tasks.size(), 1U);
  const auto others = on.blocking().owners({.limit = 1}).cursor;
  EXPECT_LE(with([&](const Texts&) { return on.owners({.cursor = others + ""}, token); }).owners.size(), 2U);

  const auto asking = with([&](const Texts& t) {
    return on.update_status(owner, id, TaskStatus::input_required, t.message, token);
  });
  EXPECT_EQ(asking.status_message, text("message"));
  const auto changed = with([&](const Texts& t) { return on.set_variables(owner, id, t.json, token); });
  EXPECT_EQ(changed.variables, object("name"));
  EXPECT_EQ(with([&](const Texts& t) { return on.set_result(owner, id, t.json, token); }).result,
            object("name"));
  const auto bound = with([&](const Texts& t) {
    return on.bind(owner, id, {.authority = t.owner, .lock_key = t.key, .fence = *Fence::of(7)}, token);
  });
  EXPECT_EQ(bound.bound_to->lock_key, text("key"));
  const auto rebound = with([&](const Texts& t) {
    return on.rebind(owner, id, {{.authority = t.owner, .lock_key = t.method, .fence = *Fence::of(7)}},
                     token);
  });
  EXPECT_EQ(rebound.bound_to->lock_key, text("method"));
  const auto fenced = with([&](const Texts& t) {
    return on.with_fence({.authority = t.owner, .lock_key = t.method, .fence = *Fence::of(7)})
        .update_status(owner, id, TaskStatus::working, {}, token);
  });
  EXPECT_EQ(fenced.status, TaskStatus::working);
  const auto moved = with([&](const Texts& t) {
    return on.rebind_from(t.owner, owner, id,
                          {{.authority = t.key, .lock_key = t.method, .fence = *Fence::of(1)}}, token);
  });
  EXPECT_EQ(moved.bound_to->authority, text("key"));
  EXPECT_FALSE(with([&](const Texts&) { return on.rebind(owner, id, {}, token); }).bound_to);
  const auto ended =
      with([&](const Texts& t) { return on.complete_with_result(owner, id, t.json, t.message, token); });
  EXPECT_EQ(ended.result, object("name"));
  EXPECT_TRUE(with([&](const Texts& t) {
    const auto until = [message = t.message](const Task& task) { return task.status_message == message; };
    return on.wait(owner + "", id + "", 10s, until, token);
  }));
  EXPECT_EQ(with([&](const Texts&) { return on.get_result(owner + "", id + "", token); }), object("name"));
  EXPECT_TRUE(with([&](const Texts&) { return on.remove(owner + "", id + "", token); }));

  const auto next = [&] { return on.blocking().create(owner).id; };
  const auto failed = with([&](const Texts& t) { return on.fail(owner, next(), t.message, token); });
  EXPECT_EQ(failed.status_message, text("message"));
  const auto why =
      with([&](const Texts& t) { return on.fail_with_result(owner, next(), t.json, t.message, token); });
  EXPECT_EQ(why.result, object("name"));
  const auto cancelled = with([&](const Texts& t) { return on.cancel(owner, next(), t.message, token); });
  EXPECT_EQ(cancelled.status_message, text("message"));
}

TEST_P(AsioArguments, OfTasksMayEndBeforeTheOperationBegins) {
  call_tasks_later<Awaitable>(*tasks, "alice");
  call_tasks_later<Deferred>(*tasks, "bob");
}

template <class Later>
void call_claims_later(AsyncTasks on) {
  constexpr auto token = Later::token;
  const auto with = later<Later>(on.get_executor());
  const auto claimed = [&] {
    const auto id = on.blocking().create("alice").id;
    return with([&](const Texts&) { return on.claim(std::string("alice"), id + "", {.ttl = 30s}, token); });
  };
  auto claim = claimed();
  EXPECT_EQ(with([&](const Texts& t) { return claim.set_variables(t.json, token); }).variables,
            object("name"));
  const auto asking =
      with([&](const Texts& t) { return claim.update_status(TaskStatus::input_required, t.message, token); });
  EXPECT_EQ(asking.status_message, text("message"));
  const auto completed = with([&](const Texts& t) { return claim.complete(t.json, t.message, token); });
  EXPECT_EQ(completed.status_message, text("message"));
  EXPECT_EQ(completed.result, object("name"));
  claim = claimed();
  EXPECT_EQ(with([&](const Texts& t) { return claim.fail(t.message, token); }).status_message,
            text("message"));
  claim = claimed();
  const auto failed = with([&](const Texts& t) { return claim.fail_with_result(t.json, t.message, token); });
  EXPECT_EQ(failed.result, object("name"));
}

TEST_P(AsioArguments, OfClaimsMayEndBeforeTheOperationBegins) {
  call_claims_later<Awaitable>(*tasks);
  call_claims_later<Deferred>(*tasks);
}

template <class Later>
void call_registers_later(AsyncRegister on) {
  constexpr auto token = Later::token;
  const auto with = later<Later>(on.get_executor());
  EXPECT_GE(with([&](const Texts& t) {
              return on.put(t.method, {.authority = t.owner, .lock_key = t.key, .fence = *Fence::of(7)},
                            token);
            }),
            1U);
  const auto raised = with([&](const Texts& t) {
    return on.bind({.authority = t.owner, .lock_key = t.key, .fence = *Fence::of(7)}, token);
  });
  EXPECT_EQ(raised->text, text("method"));
  EXPECT_TRUE(with([&](const Texts& t) {
    return on.rebind({.authority = t.owner, .lock_key = t.key, .fence = *Fence::of(7)}, token);
  }));
  const auto moved = with([&](const Texts& t) {
    return on.rebind_from(t.owner, {.authority = t.key, .lock_key = t.key, .fence = *Fence::of(7)}, token);
  });
  EXPECT_EQ(moved->written_by.authority, text("key"));
  EXPECT_TRUE(with([&](const Texts& t) {  // as it was
    return on.rebind({.authority = t.owner, .lock_key = t.key, .fence = *Fence::of(7)}, token);
  }));
}

TEST_P(AsioArguments, OfRegistersMayEndBeforeTheOperationBegins) {
  call_registers_later<Awaitable>(*state);
  call_registers_later<Deferred>(*state);
}

INSTANTIATE_TEST_SUITE_P(Engine, AsioArguments, testing::Values("memory", "sqlite", "redis"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace holdfast::test
