// Reads a task of the memory engine, or changes one of its variables, N times: what a record's JSON costs.
// Prints the processor time of one; for instructions, run it under callgrind with two numbers of times:
//   valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*_tasks*' task_records get
//   1000 100 task_records get|set VARIABLES TIMES

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/tasks.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

namespace {

using holdfast::Json;

/// Some 100 bytes each: a text with an escape, numbers and a list.
std::string variables(long count) {
  std::string object = "{";
  for (long i = 0; i < count; ++i) {
    if (i > 0) object += ',';
    object += "\"variable_" + std::to_string(i) +
              R"(":{"text":"some \"quoted\" text, and a caf)"
              "\xC3\xA9"
              R"(","numbers":[1,2.5,-3e10],"done":true})";
  }
  return object + '}';
}

[[gnu::noinline]] void get_tasks(holdfast::Tasks& tasks, const std::string& id, long times) {
  for (long i = 0; i < times; ++i) (void)tasks.get("alice", id);
}

[[gnu::noinline]] void set_tasks(holdfast::Tasks& tasks, const std::string& id, long times) {
  for (long i = 0; i < times; ++i) {
    const auto change = Json::parse("{\"progress\":" + std::to_string(i) + "}").value_or_throw();
    (void)tasks.set_variables("alice", id, change);
  }
}

double processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  const std::string_view what = argv[1];
  const long times = std::strtol(argv[3], nullptr, 10);
  holdfast::Tasks tasks(holdfast::make_memory_storage_backend(),
                        holdfast::Locks(holdfast::make_memory_lock_backend()));
  const auto first = Json::parse(variables(std::strtol(argv[2], nullptr, 10))).value_or_throw();
  const auto task = tasks.create("alice", {.method = "tools/call", .variables = first});
  const auto start = processor_ns();
  what == "get" ? get_tasks(tasks, task.id, times) : set_tasks(tasks, task.id, times);
  std::printf("%s of a task with a record of %zu bytes: %.0f ns\n", argv[1], task.record.str().size(),
              (processor_ns() - start) / static_cast<double>(times));
}
