#include "decorate/counts.hpp"

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace holdfast::decorate {
namespace {

constexpr Activity last_operation = Activity::read_output;

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::initializer_list<Label>;

std::string seconds(double value) {
  std::array<char, 64> text{};
  // Fixed notation: some readers of this format do not accept exponents in a bound.
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return {text.data(), end.ptr};
}

/// Writes one family of series after another.
class Page {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help);
    text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(const Labels& labels, std::string_view value, std::string_view suffix = {},
              std::string_view bound = {}) {
    text_.append(name_).append(suffix);
    char before = '{';
    for (const auto& [name, label] : labels) {
      text_ += std::exchange(before, ',');
      append(name, label);
    }
    if (!bound.empty()) {
      text_ += std::exchange(before, ',');
      append("le", bound);
    }
    if (before == ',') text_ += '}';
    text_.append(" ").append(value).append("\n");
  }
  void sample(const Labels& labels, std::uint64_t value) { sample(labels, std::to_string(value)); }

  void histogram(const Labels& labels, const Histogram& times,
                 const std::array<double, Histogram::bounds>& bounds) {
    std::uint64_t so_far = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      so_far += times.buckets()[i].value();
      sample(labels, std::to_string(so_far), "_bucket", seconds(bounds[i]));
    }
    so_far += times.buckets().back().value();
    sample(labels, std::to_string(so_far), "_bucket", "+Inf");
    sample(labels, seconds(static_cast<double>(times.nanoseconds()) / 1e9), "_sum");
    sample(labels, std::to_string(so_far), "_count");
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void append(std::string_view name, std::string_view value) {
    text_.append(name).append("=\"");
    for (const char c : value) {
      if (c == '\\' || c == '"') text_ += '\\';
      if (c == '\n') {
        text_ += "\\n";
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  std::string_view name_;
};

/// `function(engine, activity, its counts)` for every operation of the two contracts.
template <class F>
void for_each_operation(const Engines& engines, F&& function) {
  engines.for_each([&](const EngineCounts& engine) {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(last_operation); ++i) {
      function(engine, static_cast<Activity>(i), engine.activities[i]);
    }
  });
}

/// `function(reason, count)` for each way to fail that has happened.
template <class F>
void for_each_failure(const ActivityCounts& counts, F&& function) {
  for (std::size_t i = 0; i < counts.refused.size(); ++i) {
    if (const auto count = counts.refused[i].value()) function(to_string(static_cast<Reason>(i)), count);
  }
  for (std::size_t i = 0; i < counts.failed.size(); ++i) {
    if (const auto count = counts.failed[i].value()) function(to_string(static_cast<ErrorCode>(i)), count);
  }
}

/// Operations begun and not ended. This order of reads keeps the difference from becoming negative when one
/// ends meanwhile. In a forked child, the parent's pending operations never end.
std::uint64_t under_way(const ActivityCounts& counts) {
  const auto ended = counts.ok.value() + counts.not_ok();
  const auto begun = counts.begun.value();
  return begun > ended ? begun - ended : 0;
}

void write_operations(Page& page, const Engines& engines) {
  page.family("holdfast_operations_total", "counter", "Completed engine operations.");
  for_each_operation(engines, [&](const auto& engine, Activity activity, const auto& counts) {
    const auto subject = subject_of(activity);
    const auto operation = to_string(activity);
    page.sample({{"backend", engine.name}, {"subject", subject}, {"operation", operation}, {"result", "ok"}},
                counts.ok.value());
    page.sample(
        {{"backend", engine.name}, {"subject", subject}, {"operation", operation}, {"result", "fail"}},
        counts.not_ok());
  });
  page.family("holdfast_operation_failures_total", "counter",
              "Engine operations that were refused or failed, by reason or error code.");
  for_each_operation(engines, [&](const auto& engine, Activity activity, const auto& counts) {
    for_each_failure(counts, [&](std::string_view reason, std::uint64_t count) {
      page.sample({{"backend", engine.name},
                   {"subject", subject_of(activity)},
                   {"operation", to_string(activity)},
                   {"reason", reason}},
                  count);
    });
  });
  page.family("holdfast_operations_in_flight", "gauge", "Engine operations in progress.");
  engines.for_each([&](const EngineCounts& engine) {
    for (const std::string_view subject : {"lock", "task", "queue"}) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i <= static_cast<std::size_t>(last_operation); ++i) {
        if (subject_of(static_cast<Activity>(i)) == subject) sum += under_way(engine.activities[i]);
      }
      page.sample({{"backend", engine.name}, {"subject", subject}}, sum);
    }
  });
  page.family("holdfast_operation_duration_seconds", "histogram", "Duration of engine operations.");
  for_each_operation(engines, [&](const auto& engine, Activity activity, const auto& counts) {
    if (counts.ok.value() + counts.not_ok() == 0) return;
    page.histogram(
        {{"backend", engine.name}, {"subject", subject_of(activity)}, {"operation", to_string(activity)}},
        counts.time, bounds_of(activity));
  });
}

void write_results(Page& page, const Engines& engines, Activity activity) {
  engines.for_each([&](const EngineCounts& engine) {
    page.sample({{"backend", engine.name}, {"result", "ok"}}, engine.of(activity).ok.value());
    page.sample({{"backend", engine.name}, {"result", "fail"}}, engine.of(activity).not_ok());
  });
}

void write_failures(Page& page, const Engines& engines, Activity activity) {
  engines.for_each([&](const EngineCounts& engine) {
    for_each_failure(engine.of(activity), [&](std::string_view reason, std::uint64_t count) {
      page.sample({{"backend", engine.name}, {"reason", reason}}, count);
    });
  });
}

void write_under_way(Page& page, const Engines& engines, Activity activity) {
  engines.for_each([&](const EngineCounts& engine) {
    page.sample({{"backend", engine.name}}, under_way(engine.of(activity)));
  });
}

void write_times(Page& page, const Engines& engines, Activity activity) {
  engines.for_each([&](const EngineCounts& engine) {
    page.histogram({{"backend", engine.name}}, engine.of(activity).time, bounds_of(activity));
  });
}

void write_count(Page& page, const Engines& engines, Activity activity) {
  engines.for_each([&](const EngineCounts& engine) {
    page.sample({{"backend", engine.name}}, engine.of(activity).ok.value());
  });
}

void write_locks(Page& page, const Engines& engines) {
  page.family("holdfast_lock_waits_total", "counter", "Waits for a lock.");
  write_results(page, engines, Activity::wait);
  page.family("holdfast_lock_wait_failures_total", "counter", "Waits that ended without a lock, by reason.");
  write_failures(page, engines, Activity::wait);
  page.family("holdfast_lock_wait_seconds", "histogram", "Time until a wait for a lock succeeded or failed.");
  write_times(page, engines, Activity::wait);
  page.family("holdfast_locks_waiting", "gauge", "Waiters for a lock now.");
  write_under_way(page, engines, Activity::wait);
  page.family("holdfast_lock_hold_seconds", "histogram", "How long guards held their locks.");
  write_times(page, engines, Activity::hold);
  page.family("holdfast_locks_held", "gauge", "Guards that hold a lock now.");
  write_under_way(page, engines, Activity::hold);
  page.family("holdfast_lock_losses_total", "counter", "Locks that were lost while a guard held them.");
  engines.for_each([&](const EngineCounts& engine) {
    for (const auto reason : {Reason::unproven, Reason::gone, Reason::max_hold}) {
      const auto& lost = engine.of(Activity::hold).refused[static_cast<std::size_t>(reason)];
      page.sample({{"backend", engine.name}, {"reason", to_string(reason)}}, lost.value());
    }
  });
  page.family("holdfast_lock_renewals_total", "counter", "Renewals by guards.");
  write_results(page, engines, Activity::renew);
  page.family("holdfast_lock_renewal_failures_total", "counter", "Renewals that failed, by reason.");
  write_failures(page, engines, Activity::renew);
}

/// Of all operations on records together, and present with 0: an alert needs the first refusal too.
void write_refused_writes(Page& page, const Engines& engines) {
  page.family("holdfast_task_writes_refused_total", "counter",
              "Writes to tasks and registers that were refused because of their fence.");
  engines.for_each([&](const EngineCounts& engine) {
    for (const auto reason : {Reason::stale_fence, Reason::wrong_lock}) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i <= static_cast<std::size_t>(last_operation); ++i) {
        sum += engine.activities[i].refused[static_cast<std::size_t>(reason)].value();
      }
      page.sample({{"backend", engine.name}, {"reason", to_string(reason)}}, sum);
    }
  });
}

}  // namespace

std::string prometheus(const Engines& engines, std::uint64_t dropped_events) {
  Page page;
  write_operations(page, engines);
  write_locks(page, engines);
  write_refused_writes(page, engines);
  page.family("holdfast_reconnects_total", "counter", "Reconnects, successful and failed.");
  write_results(page, engines, Activity::reconnect);
  page.family("holdfast_fence_regressions_total", "counter",
              "Grants that showed that the server had lost fences.");
  write_count(page, engines, Activity::fence_regression);
  page.family("holdfast_clock_jumps_total", "counter", "Jumps of the server's clock.");
  write_count(page, engines, Activity::clock_jump);
  page.family("holdfast_unusable_epochs_total", "counter",
              "Epochs of Redis masters that cannot order fences across a failover.");
  write_count(page, engines, Activity::unusable_epoch);
  page.family("holdfast_telemetry_events_dropped_total", "counter",
              "Telemetry events dropped because too many were waiting.");
  page.sample({}, dropped_events);
  return std::move(page).text();
}

}  // namespace holdfast::decorate
