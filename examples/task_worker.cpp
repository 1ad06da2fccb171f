// A task outlives its worker: the next worker continues with a higher fence, and the task refuses late writes
// of the old worker.
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>

using namespace std::chrono_literals;

namespace {

holdfast::Json json(const char* text) {
  return holdfast::Json::parse(text).value_or_throw();
}

}  // namespace

int main() {
  auto hf = holdfast::open("memory:");
  auto tasks = hf.tasks();

  // Two requests with the same request key create one task.
  const holdfast::NewTask request{.method = "reports/make", .ttl = 10min, .request_key = "report-2026-11"};
  const auto task = tasks.create("alice", request);
  if (tasks.create("alice", request).id != task.id) return 1;

  // This worker is too slow to notice that its lease has expired.
  auto slow = tasks.claim("alice", task.id, {.ttl = 100ms, .auto_renew = false});
  slow.set_variables(json(R"({"progress": 0.2})"));

  // A second worker replaces it. Its claim is enough to keep the old worker out, before it writes anything.
  auto quick = tasks.claim("alice", task.id, {.ttl = 30s, .wait = 10s});
  try {
    slow.complete(json(R"("an outdated report")"));
    return 1;
  } catch (const holdfast::Error& error) {
    std::cout << error.what() << '\n';
    if (error.code() != holdfast::ErrorCode::StaleFence) return 1;
  }

  if (quick.stopped().stop_requested()) return 1;  // set if the lock is lost or the task cancelled
  quick.complete(json(R"("the report")"));

  const auto ended = tasks.wait("alice", task.id, 5s);
  std::cout << "task " << task.id << ": " << to_string(ended->status) << ", " << ended->result.str() << '\n';
  return ended->result.str() == R"("the report")" ? 0 : 1;
}
