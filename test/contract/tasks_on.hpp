#pragma once

#include <gtest/gtest.h>

#include <holdfast/holdfast.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/own_store.hpp"
#include "support/tested_tasks.hpp"

namespace holdfast::test {

inline Json json(std::string_view text) {
  return Json::parse(text).value_or_throw();
}

/// An engine, and how it is asked.
struct TasksWay {
  std::string engine;
  bool through_asio = false;
};

/// The task rules, through the blocking interface and through Asio, on an engine of each kind.
class TasksOn : public testing::TestWithParam<TasksWay> {
 protected:
  void SetUp() override {
    if (GetParam().engine == "redis") {
      if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    }
    own.emplace(GetParam().engine);
    holdfast.emplace(open(own->url()));
    if (GetParam().through_asio) asio = std::make_shared<AsioThread>();
  }
  TestedTasks tasks(const TaskOptions& options = {}) { return {asio, holdfast->tasks(options)}; }

  template <class F>
  static ErrorCode code_of(F&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::Internal;
  }

  std::optional<OwnStore> own;
  std::optional<Holdfast> holdfast;
  std::shared_ptr<AsioThread> asio;
};

inline std::vector<TasksWay> ways_to_tasks() {
  return {{"memory", false}, {"sqlite", false}, {"redis", false},
          {"memory", true},  {"sqlite", true},  {"redis", true}};
}

inline std::string way_name(const testing::TestParamInfo<TasksWay>& instance) {
  if (instance.param.through_asio) return instance.param.engine + "_asio";
  return instance.param.engine == "redis" ? "redis_tcp" : instance.param.engine;
}

}  // namespace holdfast::test
