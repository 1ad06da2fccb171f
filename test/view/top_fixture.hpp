#pragma once

#include <holdfast/fence.hpp>
#include <memory>
#include <string>

#include "top/frame.hpp"

namespace holdfast::cli::top {

/// A store as a test describes it, and a screen that shows it.
struct Shown {
  static constexpr WallTime midnight{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}};
  static constexpr BootTime now{std::chrono::seconds(1000)};

  Shown() {
    snapshot.number = 1;
    snapshot.made_at = now;
    snapshot.engine_time = midnight;
    snapshot.whole = true;
    snapshot.current_since = now - std::chrono::milliseconds(400);
    snapshot.tasks_since = snapshot.current_since;
    snapshot.reachability = view::Reachability::up;
    snapshot.events = events;
  }

  void add_lock(std::string key, std::string holder, std::uint64_t fence, std::chrono::seconds left,
                std::chrono::seconds of, std::optional<std::uint32_t> waiters = 0) {
    snapshot.locks.push_back(
        std::make_shared<view::LockRow>(view::LockRow{.key = std::move(key),
                                                      .holder = std::move(holder),
                                                      .fence = Fence::of(fence).value_or_throw(),
                                                      .acquired_at = midnight + left - of,
                                                      .expires_at = midnight + left,
                                                      .lease = of,
                                                      .waiters = waiters}));
  }
  view::TaskRow& add_task(std::string owner, std::string id, std::string method, TaskStatus status) {
    auto row =
        std::make_shared<view::TaskRow>(view::TaskRow{.owner = std::move(owner),
                                                      .id = std::move(id),
                                                      .method = std::move(method),
                                                      .status = status,
                                                      .created_at = midnight - std::chrono::minutes(3)});
    snapshot.tasks.push_back(row);
    return *row;
  }
  view::QueueRow& add_queue(std::string name, std::size_t ready, std::size_t working) {
    snapshot.queues_since = snapshot.current_since;
    auto row = std::make_shared<view::QueueRow>(view::QueueRow{
        .name = std::move(name), .ready = ready, .working = working, .tasks = ready + working});
    snapshot.queues.push_back(row);
    return *row;
  }
  view::Event& add_event(view::EventKind kind) {
    auto& event = events->emplace_back();
    event.sequence = events->size();
    event.kind = kind;
    event.at = midnight;
    return event;
  }

  [[nodiscard]] Rows rows() const { return rows_of(snapshot, state); }
  Action press(const Key& key) {
    const auto action = top::press(state, key, rows(), visible_rows(snapshot, state, size));
    settle(state, rows(), visible_rows(snapshot, state, size));
    return action;
  }
  Action type(std::string_view text) {
    Action last;
    for (const char c : text) last = press({.text = std::string(1, c)});
    return last;
  }
  Frame frame() {
    const auto shown = rows();
    settle(state, shown, visible_rows(snapshot, state, size));
    return compose(snapshot, shown, state,
                   {.size = size, .now = now, .store = "redis://cache.internal", .unicode = unicode});
  }
  /// Without empty lines, except one for any number of them.
  std::string text() {
    std::string all;
    bool empty = false;
    for (const auto& line : frame().lines) {
      const auto drawn = line.text();
      if (drawn.empty() && empty) continue;
      empty = drawn.empty();
      all += drawn + "\n";
    }
    return all;
  }

  std::shared_ptr<std::vector<view::Event>> events = std::make_shared<std::vector<view::Event>>();
  view::Snapshot snapshot;
  State state;
  Size size{.columns = 80, .lines = 24};
  bool unicode = true;
};

}  // namespace holdfast::cli::top
