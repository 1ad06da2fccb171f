#include "task/command_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "process/job_control.hpp"
#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;

namespace {

constexpr int lines_number = 3;
/// How much is read ahead of the readers.
constexpr std::size_t max_pending = std::size_t{64} * 1024;
/// What is read after the command's end at most: a descendant may go on filling the pipe.
constexpr std::size_t max_left_behind = std::size_t{1024} * 1024;
constexpr int first_of_ours = 10;

/// Above the numbers that redirections of the command's descriptors use.
Descriptor moved_up(int fd) {
  const Descriptor low(fd);
  return Descriptor(checked(fcntl(fd, F_DUPFD_CLOEXEC, first_of_ours), "cannot duplicate a descriptor"));
}

/// Our end does not block; the command's does, as any program expects.
std::pair<Descriptor, Descriptor> make_pipe() {
  std::array<int, 2> ends{};
  checked(pipe2(ends.data(), O_CLOEXEC), "cannot create a pipe");
  Descriptor write_low(ends[1]);
  Descriptor in = moved_up(ends[0]);
  Descriptor out(
      checked(fcntl(write_low.get(), F_DUPFD_CLOEXEC, first_of_ours), "cannot duplicate a descriptor"));
  checked(fcntl(in.get(), F_SETFL, O_NONBLOCK), "cannot set up a pipe");
  return {std::move(in), std::move(out)};
}

}  // namespace

std::string CommandOutput::Stream::tail_text() const {
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  std::size_t start = tail.size() > tail_bytes ? tail.size() - tail_bytes : 0;
  constexpr std::size_t longest_rest = 3;
  const auto limit = std::min(tail.size(), start + longest_rest);
  while (start > 0 && start < limit && is_continuation(tail[start])) ++start;
  return tail.substr(start);
}

CommandOutput::CommandOutput() : end_(posix::make_eventfd()) {
  int number = STDOUT_FILENO;
  for (auto* stream : {streams_.data(), streams_.data() + 1, &lines_}) {
    std::tie(stream->in, stream->theirs) = make_pipe();
    stream->number = number++;
  }
}

CommandOutput::~CommandOutput() {
  if (!thread_.joinable()) return;
  eventfd_write(end_.get(), 1);
  thread_.join();
}

std::vector<Redirection> CommandOutput::redirections() const {
  return {{streams_[0].theirs.get(), streams_[0].number},
          {streams_[1].theirs.get(), streams_[1].number},
          {lines_.theirs.get(), lines_number}};
}

void CommandOutput::start(std::function<void(std::string_view)> on_line,
                          std::function<void(std::size_t, std::string_view)> on_output) {
  on_line_ = std::move(on_line);
  on_output_ = std::move(on_output);
  for (auto& stream : streams_) stream.theirs.reset();
  lines_.theirs.reset();
  thread_ = std::thread([this] {
    block_all_signals();
    pump();
  });
}

void CommandOutput::finish_reading() {
  eventfd_write(end_.get(), 1);
  if (thread_.joinable()) thread_.join();
  for (auto& stream : streams_) {
    const auto limit = stream.pending.size() + max_left_behind;
    for (std::size_t before = 0; stream.in && stream.pending.size() < limit; before = stream.pending.size()) {
      read_some(stream);
      if (stream.pending.size() == before) break;
    }
  }
  read_lines();
  splitter_.finish(on_line_);
}

bool CommandOutput::has_rest() const noexcept {
  return std::ranges::any_of(streams_, [](const Stream& stream) { return !stream.pending.empty(); });
}

void CommandOutput::forward_rest() {
  for (auto& stream : streams_) {
    while (!stream.pending.empty()) {
      pollfd watched{stream.number, POLLOUT, 0};
      poll(&watched, 1, -1);
      forward_some(stream, PIPE_BUF);
    }
  }
}

void CommandOutput::pump() {
  while (true) {
    // poll ignores negative descriptors.
    const auto reading = [](const Stream& stream) {
      return stream.in && stream.pending.size() < max_pending ? stream.in.get() : -1;
    };
    const auto writing = [](const Stream& stream) { return stream.pending.empty() ? -1 : stream.number; };
    std::array<pollfd, 6> watched{{{end_.get(), POLLIN, 0},
                                   {lines_.in.get(), POLLIN, 0},
                                   {reading(streams_[0]), POLLIN, 0},
                                   {reading(streams_[1]), POLLIN, 0},
                                   {writing(streams_[0]), POLLOUT, 0},
                                   {writing(streams_[1]), POLLOUT, 0}}};
    poll(watched.data(), watched.size(), -1);
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) read_lines();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (watched[2 + i].revents != 0) read_some(streams_[i]);
      // A pipe that is ready accepts PIPE_BUF bytes without blocking.
      if (watched[4 + i].revents != 0) forward_some(streams_[i], PIPE_BUF);
    }
  }
}

void CommandOutput::read_some(Stream& stream) {
  std::array<char, 16384> buffer{};
  const auto n = read(stream.in.get(), buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    stream.in.reset();
    return;
  }
  if (on_output_) {
    on_output_(&stream == streams_.data() ? 0 : 1, {buffer.data(), static_cast<std::size_t>(n)});
  }
  stream.pending.append(buffer.data(), static_cast<std::size_t>(n));
  stream.tail.append(buffer.data(), static_cast<std::size_t>(n));
  constexpr auto trim_above = 8 * tail_bytes;
  // A little more than the tail, so that a character at its front is seen whole.
  if (stream.tail.size() > trim_above) stream.tail.erase(0, stream.tail.size() - tail_bytes - 4);
}

void CommandOutput::forward_some(Stream& stream, std::size_t at_most) {
  const auto n = write(stream.number, stream.pending.data(), std::min(at_most, stream.pending.size()));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    // The reader is gone. Close the pipe, so that the command gets SIGPIPE as if it wrote there directly.
    stream.pending.clear();
    stream.in.reset();
    return;
  }
  stream.pending.erase(0, static_cast<std::size_t>(n));
}

void CommandOutput::read_lines() {
  std::array<char, 16384> buffer{};
  std::size_t total = 0;
  while (lines_.in && total < max_left_behind) {
    const auto n = read(lines_.in.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      lines_.in.reset();
      return;
    }
    total += static_cast<std::size_t>(n);
    splitter_.take({buffer.data(), static_cast<std::size_t>(n)}, on_line_);
  }
}

}  // namespace holdfast::cli
