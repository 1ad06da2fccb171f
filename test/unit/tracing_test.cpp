#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/tasks.hpp>
#include <holdfast/tracing.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/hooked_backend.hpp"
#include "support/storage_calls.hpp"

namespace holdfast {
namespace {

using namespace test;

struct Recorded {
  std::string name;
  TraceContext parent;
  std::map<std::string, AttributeValue> attributes;
  SpanTime started;
  SpanTime ended;
  SpanStatus status{};

  [[nodiscard]] std::string text(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? "" : std::get<std::string>(found->second);
  }
};

/// A tracing system of one page.
class RecordingTracer final : public Tracer {
 public:
  TraceContext current;  ///< of this test's thread
  std::atomic<int> asked = 0;

  TraceContext context() override {
    ++asked;
    return current;
  }

  std::unique_ptr<Span> start(const SpanStart& start) override {
    Recorded recorded{.name = std::string(start.name),
                      .parent = start.parent,
                      .attributes = {},
                      .started = start.at,
                      .ended = {}};
    for (const auto& [name, value] : start.attributes) recorded.attributes.emplace(name, value);
    return std::make_unique<RecordingSpan>(*this, std::move(recorded));
  }

  /// All that ended so far.
  [[nodiscard]] std::vector<Recorded> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }
  /// The one of that name, once it is there.
  [[nodiscard]] Recorded span(std::string_view name) const {
    Recorded found;
    EXPECT_TRUE(eventually([&] {
      for (auto& span : spans()) {
        if (span.name == name) found = std::move(span);
      }
      return !found.name.empty();
    })) << name;
    return found;
  }

 private:
  class RecordingSpan final : public Span {
   public:
    RecordingSpan(RecordingTracer& tracer, Recorded recorded)
        : tracer_(tracer), recorded_(std::move(recorded)) {}
    void set_attribute(std::string_view name, const AttributeValue& value) override {
      recorded_.attributes.emplace(name, value);
    }
    void end(SpanStatus status, const SpanTime& at) override {
      recorded_.status = status;
      recorded_.ended = at;
      const std::lock_guard lock(tracer_.mutex_);
      tracer_.spans_.push_back(std::move(recorded_));
    }

   private:
    RecordingTracer& tracer_;
    Recorded recorded_;
  };

  mutable std::mutex mutex_;
  std::vector<Recorded> spans_;
};

class Spans : public testing::Test {
 protected:
  std::shared_ptr<RecordingTracer> tracer = std::make_shared<RecordingTracer>();
  std::shared_ptr<Observer> tracing = make_tracing(tracer);
  std::shared_ptr<LockBackend> backend = with_observer(make_memory_lock_backend(), tracing);
  Locks locks{backend, {}, tracing};
};

TEST_F(Spans, ALockHasOneForItsWaitOneForItsHoldAndOneForEachOperation) {
  const auto before = std::chrono::system_clock::now();
  auto guard = locks.lock("orders:42", {.ttl = 30s, .holder = "alice@web-3:812 make"});
  const auto id_hash = key_hash(guard.id().str());
  const auto fence = guard.fence().to_string();
  guard.release();

  const auto wait = tracer->span("holdfast.lock.wait");
  EXPECT_EQ(wait.text("holdfast.backend"), "memory");
  EXPECT_EQ(wait.text("holdfast.key_hash"), key_hash("orders:42"));
  EXPECT_EQ(wait.text("holdfast.lock_id_hash"), id_hash);
  EXPECT_EQ(wait.text("holdfast.fence"), fence);
  EXPECT_EQ(wait.text("holdfast.holder"), "alice@web-3:812 make");
  EXPECT_EQ(wait.text("holdfast.result"), "ok");
  EXPECT_EQ(std::get<std::int64_t>(wait.attributes.at("holdfast.attempts")), 1);
  EXPECT_EQ(wait.status, SpanStatus::ok);
  const auto hold = tracer->span("holdfast.lock.hold");
  const auto acquire = tracer->span("holdfast.lock.acquire");
  const auto release = tracer->span("holdfast.lock.release");
  EXPECT_EQ(hold.text("holdfast.lock_id_hash"), id_hash);
  EXPECT_EQ(tracer->spans().size(), 4U);

  // In order, by the clock that durations are taken from.
  EXPECT_LE(wait.started.steady, acquire.started.steady + 1ms);
  EXPECT_LE(acquire.ended.steady, wait.ended.steady + 1ms);
  EXPECT_LE(wait.ended.steady, hold.started.steady + 1ms);
  EXPECT_LE(release.ended.steady, hold.ended.steady + 1ms);
  EXPECT_GE(wait.started.system, before - 1s);
  EXPECT_LE(hold.ended.system, std::chrono::system_clock::now() + 1s);
}

TEST_F(Spans, NoneShowsARawKeyOrId) {
  auto guard = locks.lock("orders:42");
  const std::string id(guard.id().str());
  guard.release();
  (void)tracer->span("holdfast.lock.release");
  for (const auto& span : tracer->spans()) {
    for (const auto& [name, value] : span.attributes) {
      const auto* text = std::get_if<std::string>(&value);
      if (text == nullptr) continue;
      EXPECT_EQ(text->find("orders"), std::string::npos) << span.name << " " << name;
      EXPECT_EQ(text->find(id), std::string::npos) << span.name << " " << name;
    }
  }
}

TEST_F(Spans, HaveTheCallersSpanForAParent) {
  tracer->current = std::make_shared<const std::string>("a request");
  auto guard = locks.lock("k");
  guard.release();
  for (const auto* name : {"holdfast.lock.wait", "holdfast.lock.hold", "holdfast.lock.acquire"}) {
    EXPECT_EQ(tracer->span(name).parent, tracer->current) << name;
  }
}

TEST_F(Spans, OfWhatBeginsInACompletionHaveNone) {
  tracer->current = std::make_shared<const std::string>("a request");
  const int asked_before = tracer->asked;
  int asked_inside = -1;
  backend->submit(IsLockedRequest{.key = key("k")}, {}, [&](const Result<bool>&) {
    const int asked = tracer->asked;
    EXPECT_FALSE(lookup(*backend, "k"));
    asked_inside = tracer->asked - asked;
  });
  EXPECT_EQ(tracer->asked, asked_before + 1);
  EXPECT_EQ(asked_inside, 0);
  EXPECT_EQ(tracer->span("holdfast.lock.is_locked").parent, tracer->current);
  EXPECT_EQ(tracer->span("holdfast.lock.lookup").parent, nullptr);
}

TEST_F(Spans, ARenewalBelongsToWhoeverTookTheLock) {
  tracer->current = std::make_shared<const std::string>("a request");
  const auto guard = locks.lock("k", {.ttl = 600ms});
  EXPECT_EQ(tracer->span("holdfast.lock.renew").parent, tracer->current);
  EXPECT_EQ(tracer->span("holdfast.lock.extend").parent, tracer->current);
}

TEST_F(Spans, AnAdoptedLockBelongsToWhoeverAdoptedIt) {
  const auto detached = locks.acquire("k");
  tracer->current = std::make_shared<const std::string>("a request");
  (void)locks.adopt(detached);
  EXPECT_EQ(tracer->span("holdfast.lock.hold").parent, tracer->current);
}

/// Whether the engine blocks, and so is asked on a thread of the library.
class SpansWithoutAThread : public Spans, public testing::WithParamInterface<bool> {};

TEST_P(SpansWithoutAThread, HaveTheCallersSpanForAParentAllTheSame) {
  const auto send = [](const std::function<void()>& operation) { operation(); };
  const auto engine = std::make_shared<HookedBackend>(make_memory_lock_backend(), send,
                                                      HookedBackend::Options{.blocks = GetParam()});
  Locks on(with_observer(engine, tracing), {}, tracing);
  Tasks tasks(with_observer(make_memory_storage_backend(), tracing), on);
  tracer->current = std::make_shared<const std::string>("a request");
  std::promise<Result<Guard>> locked;
  on.start(operation::Lock{"k"}, {}, [&](Result<Guard> guard) { locked.set_value(std::move(guard)); });
  auto guard = locked.get_future().get().value_or_throw();
  std::promise<void> released, created;
  guard.release({}, [&](const Result<bool>&) { released.set_value(); });
  released.get_future().wait();
  tasks.start(operation::CreateTask{"me", detail::owned(NewTask())}, {},
              [&](const Result<Task>&) { created.set_value(); });
  created.get_future().wait();
  for (const auto* name : {"holdfast.lock.wait", "holdfast.lock.hold", "holdfast.lock.acquire",
                           "holdfast.lock.release", "holdfast.task.create"}) {
    EXPECT_EQ(tracer->span(name).parent, tracer->current) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, SpansWithoutAThread, testing::Bool());

TEST_F(Spans, OfTwoTracersEachHaveTheirOwnParent) {
  const auto other = std::make_shared<RecordingTracer>();
  tracer->current = std::make_shared<const std::string>("a request");
  other->current = std::make_shared<const int>(42);
  const auto both = observers({tracing, make_tracing(other)});
  EXPECT_FALSE(is_locked(*with_observer(make_memory_lock_backend(), both), "k"));
  EXPECT_EQ(tracer->span("holdfast.lock.is_locked").parent, tracer->current);
  EXPECT_EQ(other->span("holdfast.lock.is_locked").parent, other->current);
}

TEST_F(Spans, ATakenLockIsNoErrorToWhoeverTriesOnce) {
  const auto held = locks.acquire("k");
  EXPECT_FALSE(locks.try_lock("k"));
  EXPECT_TRUE(eventually([&] {
    return std::ranges::any_of(tracer->spans(), [](const Recorded& span) {
      return span.name == "holdfast.lock.wait" && span.text("holdfast.reason") == "locked" &&
             span.status == SpanStatus::ok && span.text("error.type").empty();
    });
  }));
}

TEST_F(Spans, ALossIsAnErrorAContendedLockIsNot) {
  EXPECT_TRUE(test::acquire(*backend, LockId::generate(), "taken"));
  EXPECT_FALSE(test::acquire(*backend, LockId::generate(), "taken"));
  const auto guard = locks.lock("k", {.ttl = 30ms, .auto_renew = false});
  const auto lost = tracer->span("holdfast.lock.hold");
  EXPECT_EQ(lost.status, SpanStatus::error);
  EXPECT_EQ(lost.text("holdfast.reason"), "unproven");
  bool refused = false;
  for (const auto& span : tracer->spans()) {
    if (span.text("holdfast.reason") != "locked") continue;
    refused = true;
    EXPECT_EQ(span.status, SpanStatus::ok);
    EXPECT_EQ(span.text("holdfast.result"), "fail");
  }
  EXPECT_TRUE(refused);
}

TEST_F(Spans, AnErrorIsNamedByItsCode) {
  const auto guard = locks.lock("k");
  EXPECT_THROW((void)locks.lock("k", {.wait = 1ms}), Error);
  EXPECT_TRUE(eventually([&] {
    for (const auto& span : tracer->spans()) {
      if (span.name == "holdfast.lock.wait" && span.text("error.type") == "AcquisitionTimeout") {
        return span.status == SpanStatus::error;
      }
    }
    return false;
  }));
}

TEST_F(Spans, OperationsOfTasksHaveThemToo) {
  const auto storage = with_observer(make_memory_storage_backend(), tracing);
  create(*storage, "me:a");
  EXPECT_EQ(tracer->span("holdfast.task.create").text("holdfast.key_hash"), key_hash("me:a"));
}

/// Everything that can go wrong in somebody's tracer.
class BadTracer final : public Tracer {
 public:
  TraceContext context() override { throw std::runtime_error("no context"); }
  std::unique_ptr<Span> start(const SpanStart&) override {
    ++started;
    if (started % 2 == 0) return nullptr;
    throw std::runtime_error("no span");
  }
  std::atomic<int> started = 0;
};

TEST(BadTracers, DisturbNothing) {
  const auto tracer = std::make_shared<BadTracer>();
  auto tracing = make_tracing(tracer);
  auto backend = with_observer(make_memory_lock_backend(), tracing);
  {
    Locks locks(backend, {}, tracing);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(locks.lock("k").release());
  }
  backend.reset();
  tracing.reset();  // waits for the last span
  EXPECT_EQ(tracer->started, 12);
}

}  // namespace
}  // namespace holdfast
