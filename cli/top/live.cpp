#include "top/live.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <holdfast/holdfast.hpp>
#include <mutex>
#include <thread>

#include "rpc/protocol/error_text.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"
#include "top/frame.hpp"
#include "top/keys.hpp"
#include "top/terminal.hpp"
#include "view/store_view.hpp"

namespace holdfast::cli::top {
namespace {

using std::chrono::milliseconds;

/// Between frames without news: leases shrink.
constexpr milliseconds frame_interval{250};
/// After which an escape is a key, not the begin of a sequence.
constexpr milliseconds escape_time{40};

view::StoreView::Options view_options(const Holdfast& store, milliseconds interval) {
  auto options = view::StoreView::options_for(store);
  options.pace.interval = interval;
  return options;
}

/// Breaks and cancels on a thread, one at a time, so that the screen goes on.
class Actions {
 public:
  struct Outcome {
    std::string message;
    bool is_bad = false;
  };

  Actions(const Holdfast& store, view::StoreView& view, int wake) : store_(store), view_(view), wake_(wake) {}

  /// False if another one is under way.
  [[nodiscard]] bool start(const Action& action) {
    const std::lock_guard guard(mutex_);
    if (busy_) return false;
    busy_ = true;
    thread_ = std::jthread([this, action](const std::stop_token& stop) { run(action, stop); });
    return true;
  }
  [[nodiscard]] std::optional<Outcome> take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  void run(const Action& action, const std::stop_token& stop) noexcept {
    Outcome outcome;
    try {
      if (const auto* lock = std::get_if<BreakLock>(&action)) outcome = break_lock(*lock, stop);
      if (const auto* task = std::get_if<CancelTask>(&action)) outcome = cancel(*task, stop);
    } catch (const Error& error) {
      outcome = {.message = rpc::text_of(error), .is_bad = true};
    } catch (const std::exception& error) {
      outcome = {.message = std::string("unexpected error: ") + error.what(), .is_bad = true};
    }
    const std::lock_guard guard(mutex_);
    outcome_ = std::move(outcome);
    busy_ = false;
    eventfd_write(wake_, 1);
  }

  Outcome break_lock(const BreakLock& wanted, const std::stop_token& stop) {
    const auto& [key, holder, fence] = wanted.lock;
    const auto broken = store_.locks().break_lock(key, wanted.reason, fence, stop);
    if (broken) {
      view_.refresh_broken_lock(key);
      return {.message = "broken: " + quote(key) + ", fence " + std::to_string(fence.value())};
    }
    view_.refresh_lock(key);
    return {.message = quote(key) + " is no longer held with the fence " + std::to_string(fence.value()) +
                       "; nothing was changed",
            .is_bad = true};
  }

  Outcome cancel(const CancelTask& wanted, const std::stop_token& stop) {
    const auto& [owner, id, incarnation] = wanted.task;
    static_cast<void>(store_.tasks({.allow_anonymous = true})
                          .with_incarnation(incarnation)
                          .cancel(owner, id, "cancelled by an operator", stop));
    view_.refresh_task(owner, id);
    return {.message = "cancelled: task " + quote(id) + " of " + quote(owner)};
  }

  const Holdfast& store_;
  view::StoreView& view_;
  const int wake_;
  std::mutex mutex_;
  bool busy_ = false;
  std::optional<Outcome> outcome_;
  std::jthread thread_;
};

/// Keeps messages of the library off the screen, and writes them to stderr when the screen is gone.
class HeldBackLog {
 public:
  explicit HeldBackLog(const Holdfast& store) : log_(store.log()) {
    log_.set_sink([lines = lines_](LogLevel level, std::string_view message) {
      const std::lock_guard guard(lines->mutex);
      if (level != LogLevel::debug && lines->texts.size() < most_lines) {
        lines->texts.push_back(std::string(to_string(level)) + ": " + std::string(message));
      }
    });
  }
  ~HeldBackLog() {
    log_.flush();
    const std::lock_guard guard(lines_->mutex);
    for (const auto& text : lines_->texts) complain(text);
  }
  HeldBackLog(const HeldBackLog&) = delete;
  HeldBackLog& operator=(const HeldBackLog&) = delete;

 private:
  static constexpr std::size_t most_lines = 100;
  struct Lines {
    std::mutex mutex;
    std::vector<std::string> texts;
  };
  Log& log_;
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

class Live {
 public:
  Live(const Holdfast& store, SignalQueue& signals, const LiveOptions& options)
      : store_(store),
        signals_(signals),
        view_(store, view_options(store, options.interval)),
        actions_(store, view_, wake_.get()),
        terminal_(options.colours) {}

  int run() {
    const auto viewer = view_.subscribe([this](const auto&) { eventfd_write(wake_.get(), 1); });
    while (!exit_code_) {
      if (!draw()) return exit_signal_base + SIGHUP;  // the terminal is gone
      wait();
    }
    return *exit_code_;
  }

 private:
  /// What the rows depend on.
  struct Shown {
    std::uint64_t number = 0;
    Tab tab{};
    LockSort lock_sort{};
    TaskSort task_sort{};
    QueueSort queue_sort{};
    bool reversed = false;
    std::string filter;
    friend bool operator==(const Shown&, const Shown&) = default;
  };

  void update() {
    if (!state_.paused || !snapshot_) snapshot_ = view_.latest();
    Shown shown{.number = snapshot_->number,
                .tab = state_.tab,
                .lock_sort = state_.lock_sort,
                .task_sort = state_.task_sort,
                .queue_sort = state_.queue_sort,
                .reversed = state_.is_reversed(),
                .filter = state_.filter};
    if (!(shown == shown_)) {
      rows_ = rows_of(*snapshot_, state_);
      shown_ = std::move(shown);
    }
    settle(state_, rows_, visible());
  }

  [[nodiscard]] std::size_t visible() const { return visible_rows(*snapshot_, state_, Terminal::size()); }

  bool draw() {
    if (auto outcome = actions_.take()) {
      state_.message = std::move(outcome->message);
      state_.is_bad = outcome->is_bad;
    }
    update();
    return terminal_.draw(compose(
        *snapshot_, rows_, state_,
        {.size = Terminal::size(), .now = BootClock::now(), .store = store_.url(), .unicode = unicode_}));
  }

  void wait() {
    std::array<pollfd, 3> ready{{{.fd = terminal_.input(), .events = POLLIN, .revents = 0},
                                 {.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}}};
    const auto timeout = decoder_.pending() ? escape_time : frame_interval;
    const auto count = poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
    if (count == 0 && decoder_.pending()) press_all(decoder_.flush());
    if (count <= 0) return;
    if (ready[1].revents != 0) {
      eventfd_t value = 0;
      eventfd_read(wake_.get(), &value);
    }
    if (ready[2].revents != 0) {
      while (const auto signal = signals_.take()) handle(*signal);
    }
    if (ready[0].revents != 0) read_keys();
  }

  void read_keys() {
    std::array<char, 512> bytes{};
    const auto n = read(terminal_.input(), bytes.data(), bytes.size());
    if (n > 0) return press_all(decoder_.take({bytes.data(), static_cast<std::size_t>(n)}));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    exit_code_ = exit_signal_base + SIGHUP;  // hung up
  }

  void press_all(const std::vector<Key>& keys) {
    for (const auto& key : keys) {
      update();
      const auto action = press(state_, key, rows_, visible());
      if (std::holds_alternative<Quit>(action)) exit_code_ = exit_ok;
      if (std::holds_alternative<Redraw>(action)) terminal_.forget();
      const bool changes =
          std::holds_alternative<BreakLock>(action) || std::holds_alternative<CancelTask>(action);
      if (changes && !actions_.start(action)) {
        state_.message = "wait until the last action is done";
        state_.is_bad = true;
      }
    }
  }

  void handle(int signal) {
    switch (signal) {
      case SIGWINCH:
        return;
      case SIGCONT:
        return terminal_.forget();
      case SIGTSTP:
        terminal_.leave();
        stop_by(SIGTSTP, false);
        return terminal_.enter();
      default:
        exit_code_ = exit_signal_base + signal;
    }
  }

  const Holdfast& store_;
  SignalQueue& signals_;
  const bool unicode_ = shows_utf8();
  posix::Descriptor wake_ = posix::make_eventfd();
  view::StoreView view_;
  Actions actions_;
  Terminal terminal_;
  KeyDecoder decoder_;
  State state_;
  std::shared_ptr<const view::Snapshot> snapshot_;
  Rows rows_;
  Shown shown_;
  std::optional<int> exit_code_;
};

}  // namespace

int show_live(const Holdfast& store, SignalQueue& signals, const LiveOptions& options) {
  const HeldBackLog log(store);
  return Live(store, signals, options).run();
}

}  // namespace holdfast::cli::top
