// The least that acquire and release on Redis can cost: the library's own scripts, called as the library
// calls them, by hiredis and by sockets alone.

#pragma once

#include <hiredis/hiredis.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <holdfast/lock_types.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bare_socket.hpp"
#include "redis_fixture.hpp"

namespace bench {

struct Scripts {
  std::string acquire, release;
  explicit Scripts(Raw& raw)
      : acquire(raw.call({"SCRIPT", "LOAD", text_of(HOLDFAST_SCRIPTS "/acquire.lua")})),
        release(raw.call({"SCRIPT", "LOAD", text_of(HOLDFAST_SCRIPTS "/release.lua")})) {}
};

struct Names {
  std::string json_key, lock_key, fence_key, channel_prefix = "syncguard:wake:0:";
  explicit Names(const std::string& key)
      : json_key("\"" + key + "\""),
        lock_key("syncguard:" + key),
        fence_key("syncguard:fence:syncguard:" + key) {}
};

/// What every fence must exceed; only behind Sentinel and on a cluster more than 0.
inline constexpr std::string_view no_floor = "0";

/// Calls `send` with the arguments of the command.
template <class Send>
void acquire_command(const Scripts& scripts, const Names& names, std::string_view id, Send&& send) {
  const auto index = "syncguard:id:" + std::string(id);
  send(std::array<std::string_view, 11>{"EVALSHA", scripts.acquire, "4", names.lock_key, index,
                                        names.fence_key, "syncguard:fence:syncguard:", id, "30000",
                                        names.json_key, no_floor});
}
template <class Send>
void release_command(const Scripts& scripts, const Names& names, std::string_view id, Send&& send) {
  const auto index = "syncguard:id:" + std::string(id);
  send(std::array<std::string_view, 7>{"EVALSHA", scripts.release, "2", index, names.lock_key, id,
                                       names.channel_prefix});
}

/// The commands of one pair, appended to hiredis' output.
inline void append_acquire(Raw& raw, const Scripts& scripts, const Names& names, std::string_view id) {
  acquire_command(scripts, names, id,
                  [&](const auto& command) { raw.append({command.begin(), command.end()}); });
}
inline void append_release(Raw& raw, const Scripts& scripts, const Names& names, std::string_view id) {
  release_command(scripts, names, id,
                  [&](const auto& command) { raw.append({command.begin(), command.end()}); });
}

/// Only keeps this many commands in flight, with one `send` and `recv` for as many as there are: the server's
/// limit.
class BareGenerator {
 public:
  BareGenerator(int port, int in_flight) : socket_(port) {
    Raw raw(port);
    scripts_.emplace_back(raw);
    static int made = 0;  // locks that another one left held must not interfere
    const auto prefix = "bare:" + std::to_string(getpid()) + ":" + std::to_string(++made) + ":";
    for (int i = 0; i < in_flight; ++i)
      slots_.push_back({Names(prefix + std::to_string(i)), holdfast::LockId::generate(), false});
    for (const auto& slot : slots_) append(slot);
  }

  /// Returns the number of pairs.
  std::uint64_t run(std::chrono::steady_clock::duration length) {
    const auto end = std::chrono::steady_clock::now() + length;
    std::uint64_t pairs = 0;
    while (std::chrono::steady_clock::now() < end) pairs += step();
    return pairs;
  }

  /// Sends what there is to send and takes the replies that arrive next; returns how many pairs they
  /// complete.
  std::uint64_t step() {
    socket_.exchange();
    std::uint64_t pairs = 0;
    std::size_t begin = 0;
    while (const auto end = end_of_reply(begin)) {
      // An acquire is answered by an array that begins with 1, a release by 1.
      const std::string_view reply(socket_.input().data() + begin, end - begin);
      const bool is_array = reply.front() == '*';
      if (reply.substr(is_array ? reply.find('\n') + 1 : 0, 3) != ":1\r")
        throw std::runtime_error("a bare operation failed");
      begin = end;
      auto& slot = slots_[next_];
      next_ = (next_ + 1) % slots_.size();
      pairs += slot.held ? 1 : 0;
      slot.held = !slot.held;
      if (!slot.held) slot.id = holdfast::LockId::generate();
      append(slot);
    }
    socket_.input().erase(0, begin);
    return pairs;
  }

 private:
  struct Slot {
    Names names;
    holdfast::LockId id;
    bool held;
  };

  void append(const Slot& slot) {
    const auto write = [this](const auto& command) {
      socket_.output() += '*' + std::to_string(command.size()) + "\r\n";
      for (const auto& argument : command)
        socket_.output()
            .append("$")
            .append(std::to_string(argument.size()))
            .append("\r\n")
            .append(argument)
            .append("\r\n");
    };
    if (slot.held) {
      release_command(scripts_.front(), slot.names, slot.id.str(), write);
    } else {
      acquire_command(scripts_.front(), slot.names, slot.id.str(), write);
    }
  }

  /// Where the reply that begins there ends; 0 if it has not arrived as a whole.
  [[nodiscard]] std::size_t end_of_reply(std::size_t begin) {
    const auto& input = socket_.input();
    const auto line = input.find('\n', begin);
    if (line == std::string::npos) return 0;
    auto end = line + 1;
    if (input[begin] == '$') {
      const int size = std::atoi(input.c_str() + begin + 1);
      if (size >= 0) end += static_cast<std::size_t>(size) + 2;
    } else if (input[begin] == '*') {
      for (int left = std::atoi(input.c_str() + begin + 1); left > 0; --left) {
        end = end_of_reply(end);
        if (end == 0) return 0;
      }
    }
    return end <= input.size() ? end : 0;
  }

  BareSocket socket_;
  std::vector<Scripts> scripts_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;  ///< replies come in the order of the slots
};

}  // namespace bench
