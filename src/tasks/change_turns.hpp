#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::tasks {

/// Puts the changes of one task that this process makes at the same time into a line, one for each task.
///
/// A change reads a record, and writes it if its version is still the same. Of many at once one succeeds each
/// time, and all others begin anew: their cost grows with the square of their number, and the last ones give
/// up (ChangeLoop::max_attempts). So a change that has lost once enters the line, and so does one that begins
/// while there is a line. What keeps changes apart is the version, not the line: a change that has waited for
/// long without its turn may go on (docs/internals/tasks.md). Thread-safe.
class ChangeTurns {
  struct Line {
    std::list<std::stop_source> places;
    std::uint64_t departures = 0;
  };
  using Lines = std::map<std::string, Line, std::less<>>;

 public:
  /// The place of one change, at the end of the line of its task when it is constructed. Must not outlive the
  /// ChangeTurns.
  class Place {
   public:
    Place(ChangeTurns& all, const std::string& task) : all_(all) {
      const std::lock_guard lock(all_.mutex_);
      const auto [line, is_new] = all_.lines_.try_emplace(task);
      line_ = line;
      at_ = line->second.places.emplace(line->second.places.end());
      if (is_new) {
        at_->request_stop();
        all_.count_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    ~Place() {
      std::optional<std::stop_source> next;
      {
        const std::lock_guard lock(all_.mutex_);
        auto& line = line_->second;
        ++line.departures;
        const bool was_first = at_ == line.places.begin();
        line.places.erase(at_);
        if (line.places.empty()) {
          all_.lines_.erase(line_);
          all_.count_.fetch_sub(1, std::memory_order_relaxed);
        } else if (was_first) {
          next = line.places.front();
        }
      }
      if (next) next->request_stop();  // not under the mutex: it runs what waits for it
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    /// A stop is requested when it is this place's turn.
    [[nodiscard]] std::stop_source turn() const { return *at_; }
    /// How many changes have left the line: whether it moves.
    [[nodiscard]] std::uint64_t departures() const {
      const std::lock_guard lock(all_.mutex_);
      return line_->second.departures;
    }

   private:
    ChangeTurns& all_;
    Lines::iterator line_;
    std::list<std::stop_source>::iterator at_;
  };

  [[nodiscard]] bool has_line(std::string_view task) const {
    if (count_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(mutex_);
    return lines_.contains(task);
  }

 private:
  mutable std::mutex mutex_;
  Lines lines_;
  std::atomic<std::size_t> count_ = 0;  ///< of lines
};

}  // namespace holdfast::tasks
