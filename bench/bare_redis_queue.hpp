// The least that the jobs of a queue on Redis can cost: the library's own commands, as it sent them once,
// with other names in them, and nothing around them.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <holdfast/lock_types.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bare_socket.hpp"
#include "redis_fixture.hpp"

namespace bench {

/// Shows the scripts that clients run.
class Monitor {
 public:
  explicit Monitor(int port) : raw_(port) { raw_.call({"MONITOR"}); }

  /// The arguments of the next script that a client runs.
  std::vector<std::string> next_script() {
    for (;;) {
      const auto line = raw_.take();
      const auto begin = line.find("] \"EVALSHA\"");
      if (begin != std::string::npos) return unquoted(std::string_view(line).substr(begin + 2));
    }
  }

 private:
  static std::vector<std::string> unquoted(std::string_view line) {
    std::vector<std::string> arguments;
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (line[at] == ' ') continue;
      auto& argument = arguments.emplace_back();
      for (++at; line.at(at) != '"'; ++at) {
        if (line[at] != '\\') {
          argument += line[at];
        } else if (line.at(++at) == 'x') {
          argument += static_cast<char>(std::stoi(std::string(line.substr(at + 1, 2)), nullptr, 16));
          at += 2;
        } else {
          static constexpr std::string_view letters = "nrtab", meant = "\n\r\t\a\b";
          const auto which = letters.find(line[at]);
          argument += which == std::string_view::npos ? line[at] : meant[which];
        }
      }
    }
    return arguments;
  }

  Raw raw_;
};

/// A command as Redis reads it, in which some texts are replaced by others of the same length.
class Template {
 public:
  Template(const std::vector<std::string>& arguments, const std::vector<std::string>& texts)
      : places_(texts.size()) {
    bytes_ = '*' + std::to_string(arguments.size()) + "\r\n";
    for (const auto& argument : arguments)
      bytes_ += '$' + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
    for (std::size_t i = 0; i < texts.size(); ++i) {
      sizes_.push_back(texts[i].size());
      for (auto at = bytes_.find(texts[i]); at != std::string::npos; at = bytes_.find(texts[i], at + 1))
        places_[i].push_back(at);
      if (places_[i].empty()) throw std::runtime_error("the command does not have " + texts[i]);
    }
  }

  void append_to(std::string& output, const std::vector<std::string_view>& texts) const {
    const auto begin = output.size();
    output += bytes_;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() != sizes_[i])
        throw std::runtime_error("of another length: " + std::string(texts[i]));
      for (const auto at : places_[i]) texts[i].copy(output.data() + begin + at, texts[i].size());
    }
  }

 private:
  std::string bytes_;
  std::vector<std::vector<std::size_t>> places_;  ///< of each text
  std::vector<std::size_t> sizes_;
};

/// Strings, and integers as text; a null is empty.
using Reply = std::vector<std::string_view>;

/// One connection that sends what has been written and reads replies as they arrive.
class BareConnection {
 public:
  explicit BareConnection(int port) : socket_(port) {}

  std::string& output() { return socket_.output(); }

  /// Sends the output, waits, and calls `use(reply)` with each array that is complete by then.
  template <class Use>
  void exchange(Use use) {
    socket_.exchange();
    std::size_t begin = 0;
    while (const auto end = read_array(begin)) {
      use(reply_);
      begin = end;
    }
    socket_.input().erase(0, begin);
  }

 private:
  /// Reads the array that begins there into reply_, and returns where it ends; 0 if it has not arrived as a
  /// whole.
  std::size_t read_array(std::size_t begin) {
    reply_.clear();
    const auto& input = socket_.input();
    auto at = begin;
    const auto line = [&]() -> std::optional<std::string_view> {
      const auto end = input.find('\n', at);
      if (end == std::string::npos) return std::nullopt;
      const std::string_view text(input.data() + at, end - 1 - at);
      at = end + 1;
      return text;
    };
    const auto head = line();
    if (!head) return 0;
    if (head->front() != '*') throw std::runtime_error(std::string(*head));
    for (int left = std::atoi(head->data() + 1); left > 0; --left) {
      const auto element = line();
      if (!element) return 0;
      if (element->front() != '$') {
        reply_.push_back(element->substr(1));
        continue;
      }
      const int size = std::atoi(element->data() + 1);
      if (size < 0) {
        reply_.emplace_back();
        continue;
      }
      if (at + static_cast<std::size_t>(size) + 2 > input.size()) return 0;
      reply_.emplace_back(input.data() + at, static_cast<std::size_t>(size));
      at += static_cast<std::size_t>(size) + 2;
    }
    return at;
  }

  BareSocket socket_;
  Reply reply_;
};

/// Adds and works by the commands that the library sent for one job.
class BareJobs {
 public:
  /// As the library sent them: the add of a job, its claim, and its end with the claim of the next one.
  struct Commands {
    std::vector<std::string> add, claim, end;
  };

  BareJobs(int port, const Commands& commands)
      : connection_(port),
        add_(commands.add, {commands.add.at(before_add + 3), commands.add.at(before_add + 6)}),
        claim_(numbered(commands.claim, claim_number), {first_number()}),
        end_(numbered(commands.end, end_number),
             {first_number(), commands.end.at(before_end + 1), commands.end.at(before_end + 2),
              commands.end.at(before_end + 7), commands.end.at(before_end + 3)}) {}

  /// Where the claim registers that its process waits, and the channel where it is woken.
  static const std::string& waiters(const Commands& commands) { return commands.claim.at(before_claim - 1); }
  static const std::string& process(const Commands& commands) { return commands.claim.at(before_claim + 6); }
  static std::string channel(const Commands& commands) {
    return commands.claim.at(before_claim + 3) + process(commands);
  }

  void add(int count, int in_flight) {
    int sent = 0, done = 0;
    const auto one = [&] {
      if (sent++ < count)
        add_.append_to(connection_.output(), {new_name(), holdfast::LockId::generate().str()});
    };
    for (int i = 0; i < in_flight; ++i) one();
    while (done < count) {
      connection_.exchange([&](const Reply& reply) {
        if (reply.at(0) != "1") throw std::runtime_error("a bare add failed");
        ++done;
        one();
      });
    }
  }

  /// Works until `count` jobs are done.
  void work(int count, int in_flight) {
    int sent = 0, done = 0;
    for (; sent < in_flight; ++sent) claim_.append_to(connection_.output(), {next_number()});
    while (done < count) {
      connection_.exchange([&](const Reply& reply) {
        // An end has three elements before those of its claim.
        const std::size_t claimed = reply.size() == 13 || reply.size() == 4 ? 0 : 3;
        if (claimed == 3) {
          if (reply.at(0) != "1") throw std::runtime_error("a bare end failed");
          ++done;
        }
        if (reply.at(claimed + 3) != "1") return;
        end_.append_to(connection_.output(), {next_number(), reply.at(claimed + 4), reply.at(claimed + 7),
                                              reply.at(claimed + 9), holdfast::LockId::generate().str()});
      });
    }
  }

  /// One claim; returns whether it got a job.
  bool claim() {
    bool got = false;
    claim_.append_to(connection_.output(), {next_number()});
    connection_.exchange([&](const Reply& reply) { got = reply.at(3) == "1"; });
    return got;
  }

 private:
  // ARGV[1] follows EVALSHA, the script, the number of keys and the keys: nine, or ten with an end and its
  // claim.
  static constexpr std::size_t before_add = 11, before_claim = 11, before_end = 12;
  static constexpr std::size_t claim_number = before_claim + 8, end_number = before_end + 23;

  /// Numbers of calls that are above the library's, and of one length.
  static std::string first_number() { return "1000000000"; }
  static std::vector<std::string> numbered(std::vector<std::string> command, std::size_t at) {
    command.at(at) = first_number();
    return command;
  }
  std::string_view next_number() { return number_ = std::to_string(++last_number_); }
  /// As long as a task's name.
  std::string_view new_name() {
    name_ = std::to_string(++last_name_);
    name_ = "00000000-0000-4000-8000-" + std::string(12 - name_.size(), '0') + name_;
    return name_;
  }

  BareConnection connection_;
  Template add_, claim_, end_;
  std::string number_, name_;
  std::uint64_t last_number_ = 1'000'000'000, last_name_ = 0;
};

}  // namespace bench
