#include <algorithm>
#include <array>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>

#include "rpc/method.hpp"
#include "rpc/session.hpp"

namespace holdfast::cli::rpc {
namespace {

using nlohmann::ordered_json;

ordered_json names_of(std::span<const Method> methods) {
  auto names = ordered_json::array();
  for (const auto& method : methods) names.push_back(method.name);
  return names;
}

/// In the units of their records: milliseconds and bytes.
ordered_json limits_of(const TaskOptions& options) {
  return {{"maxTasksPerOwner", options.max_tasks_per_owner},
          {"defaultTtl", options.default_ttl.count()},
          {"maxTtl", options.max_ttl.count()},
          {"maxVariablesBytes", options.max_variables_bytes},
          {"maxStringBytes", options.max_string_bytes},
          {"maxVariableDepth", options.max_variable_depth},
          {"pollInterval", options.poll_interval.count()}};
}

asio::awaitable<Json> version_of_sidecar(Call call) {
  auto methods = names_of(lock_methods());
  for (const auto& others : {task_methods(), sidecar_methods()}) {
    for (auto& name : names_of(others)) methods.push_back(std::move(name));
  }
  const ordered_json result{{"version", version()},
                            {"backend", call.session->service().locks().capabilities().backend},
                            {"taskLimits", limits_of(call.session->service().task_options())},
                            {"methods", std::move(methods)}};
  co_return Json::unchecked(result.dump());
}

asio::awaitable<Json> cancel_request(Call call) {
  const bool found = call.session->cancel(comparable_id(call.params.json("id").str()));
  const ordered_json result{{"ok", found}};
  co_return Json::unchecked(result.dump());
}

constexpr std::array cancel_request_parameters{Parameter{"id", Kind::id}};

constexpr std::array own_methods{
    Method{"holdfast.version", {}, version_of_sidecar},
    // As the Language Server Protocol calls it, so that its clients can cancel as they are.
    Method{"$/cancelRequest", cancel_request_parameters, cancel_request},
};

}  // namespace

std::span<const Method> sidecar_methods() {
  return own_methods;
}

const Method* find_method(std::string_view name) {
  for (const auto& some : {lock_methods(), task_methods(), sidecar_methods()}) {
    const auto found = std::ranges::find(some, name, &Method::name);
    if (found != some.end()) return &*found;
  }
  return nullptr;
}

}  // namespace holdfast::cli::rpc
