#include "process/keeper_source.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;

namespace {

using std::chrono::milliseconds;

// Both ends are one program, forked, so layout and byte order are no question. With a `fork` request come the
// descriptors: the keeper's end of its socket, then those of the redirections; with `keep_open` that one.

constexpr std::size_t max_passed = KeeperSource::max_redirections + 1;
constexpr milliseconds longest_sweep{5000};
constexpr milliseconds first_sweep_again{5};
constexpr milliseconds last_sweep_again{80};
/// How many keepers one sweep buries. They are lost together: a sweep for each would take too long.
constexpr std::size_t most_at_once = 1000;  // as many as `task work --jobs` allows
/// Above the command's own descriptors.
constexpr int first_of_keeper = 10;

struct SourceRequest {
  enum class Kind : std::int32_t { fork, sweep, keep_open };
  Kind kind{};
  std::int32_t count = 0;  ///< of the redirections
  /// sweep: those that are dead or stuck; the rest is 0
  std::array<pid_t, most_at_once> keepers{};
  std::array<std::int32_t, KeeperSource::max_redirections> to{};
};
struct SourceReply {
  pid_t pid = 0;  ///< of the keeper
  int error = 0;  ///< errno if it could not be forked
  Survivors survivors = {};
};

/// Space for the descriptors of one message.
union PassedDescriptors {
  std::array<char, CMSG_SPACE(sizeof(int) * max_passed)> bytes;
  cmsghdr aligned;
};

class SourceProcess {
 public:
  SourceProcess(Descriptor socket, const KeeperPlan& plan, const InheritedSignals& inherited) noexcept
      : socket_(std::move(socket)), plan_(plan), inherited_(inherited) {}

  [[noreturn]] void run() {
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "holdfast-source");
    ignore_signals();
    const auto child = signal_set({SIGCHLD});
    sigprocmask(SIG_SETMASK, &child, nullptr);
    children_ = Descriptor(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!children_) _exit(1);
    while (true) {
      std::array<pollfd, 2> watched{{{socket_.get(), POLLIN, 0}, {children_.get(), POLLIN, 0}}};
      poll(watched.data(), watched.size(), -1);
      signalfd_siginfo ignored{};
      while (read(children_.get(), &ignored, sizeof ignored) > 0) {
      }
      reap();
      if (socket_ && watched[0].revents != 0) receive();
      if (!socket_ && keepers_.empty()) {
        (void)sweep({});
        _exit(0);
      }
    }
  }

 private:
  void reap() {
    while (true) {
      const pid_t pid = waitpid(-1, nullptr, WNOHANG);
      if (pid <= 0) return;
      keepers_.erase(pid);
    }
  }

  void receive() {
    SourceRequest request;
    iovec data{&request, sizeof request};
    PassedDescriptors passed{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = passed.bytes.data();
    message.msg_controllen = passed.bytes.size();
    const auto n = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n != static_cast<ssize_t>(sizeof request)) {
      socket_.reset();  // holdfast has ended
      return;
    }
    std::vector<Descriptor> descriptors;
    for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::vector<int> numbers(count);
      std::memcpy(numbers.data(), CMSG_DATA(header), count * sizeof(int));
      for (const int number : numbers) descriptors.emplace_back(number);
    }
    SourceReply reply;
    switch (request.kind) {
      case SourceRequest::Kind::sweep:
        reply.survivors = sweep(request.keepers);
        break;
      case SourceRequest::Kind::keep_open:
        if (descriptors.empty()) reply.error = EINVAL;
        if (!descriptors.empty()) kept_open_ = std::move(descriptors.front());
        break;
      case SourceRequest::Kind::fork:
        reply = fork_keeper(request, std::move(descriptors));
        break;
    }
    ::send(socket_.get(), &reply, sizeof reply, MSG_NOSIGNAL);
  }

  SourceReply fork_keeper(const SourceRequest& request, std::vector<Descriptor> passed) {
    const auto count = static_cast<std::size_t>(request.count);
    if (passed.size() != count + 1) return {.error = EINVAL};
    const pid_t pid = fork();
    if (pid < 0) return {.error = errno};
    if (pid == 0) {
      socket_.reset();
      children_.reset();
      auto plan = plan_;
      for (std::size_t i = 0; i < count; ++i) {
        const int above = fcntl(passed[i + 1].get(), F_DUPFD_CLOEXEC, first_of_keeper);
        if (above < 0) _exit(1);  // holdfast sees the end of file
        plan.redirections.push_back({.from = above, .to = request.to[i]});
      }
      if (kept_open_) {
        // Above the command's own, which are closed or replaced.
        plan.kept_open = fcntl(kept_open_.get(), F_DUPFD_CLOEXEC, first_of_keeper);
        if (plan.kept_open < 0) _exit(1);
      }
      auto socket = std::move(passed.front());
      passed.clear();
      run_keeper(std::move(socket), plan, inherited_);
    }
    keepers_.insert(pid);
    return {.pid = pid};
  }

  /// Kills all descendants but the keepers and theirs. `lost` keepers are killed as well: one whose socket is
  /// closed may still be dying, and until then the processes of its command are below it. Its pid is its own
  /// until it is reaped here.
  Survivors sweep(const std::array<pid_t, most_at_once>& lost) {
    for (const pid_t keeper : lost) keepers_.erase(keeper);
    const auto give_up_at = BootClock::now() + longest_sweep;
    for (auto again = first_sweep_again; true; again = std::min(2 * again, last_sweep_again)) {
      reap();
      std::vector<Process> spared;
      spared.reserve(keepers_.size());
      for (const pid_t keeper : keepers_)
        spared.push_back({.pid = keeper, .parent = getpid(), .hidden = true});
      const auto left = descendants_.signal({SIGKILL}, 0, spared);
      reap();
      const bool done = left.all_seen && left.living == 0 && left.unburied == 0;
      if (done) return survivors_of(left);
      if (BootClock::now() >= give_up_at) {
        auto survivors = survivors_of(left);
        survivors.count += static_cast<std::int32_t>(left.living + left.unburied);
        return survivors;
      }
      sleep_until_child_ends(BootClock::now() + again, spared);
    }
  }

  Descriptor socket_;
  Descriptor children_;
  Descriptor kept_open_;
  const KeeperPlan& plan_;
  const InheritedSignals& inherited_;
  std::set<pid_t> keepers_;
  Descendants descendants_;
};

/// Sends the request with these descriptors, and waits for the reply.
SourceReply ask(const Descriptor& socket, const SourceRequest& request, const std::vector<int>& numbers) {
  auto copy = request;
  iovec data{&copy, sizeof copy};
  PassedDescriptors passed{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = passed.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * numbers.size());
  auto* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * numbers.size());
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(int) * numbers.size());
  SourceReply reply;
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0 ||
      recv(socket.get(), &reply, sizeof reply, 0) != static_cast<ssize_t>(sizeof reply)) {
    throw Error(ErrorCode::Internal, "the process that starts commands has ended; start holdfast again");
  }
  if (reply.error != 0) {
    throw Error(ErrorCode::Internal, "cannot start a process", std::strerror(reply.error));
  }
  return reply;
}

}  // namespace

KeeperSource::KeeperSource(const KeeperPlan& plan, const InheritedSignals& inherited) {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "cannot create a socket pair");
  socket_ = Descriptor(ends[0]);
  Descriptor theirs(ends[1]);
  pid_ = checked(::fork(), "cannot start a process");
  if (pid_ == 0) {
    socket_.reset();
    SourceProcess(std::move(theirs), plan, inherited).run();
  }
}

KeeperSource::~KeeperSource() {
  socket_.reset();
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

Keeper KeeperSource::fork(const std::vector<Redirection>& redirections) {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "cannot create a socket pair");
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  SourceRequest request{.kind = SourceRequest::Kind::fork,
                        .count = static_cast<std::int32_t>(redirections.size())};
  std::vector<int> numbers{theirs.get()};
  for (std::size_t i = 0; i < redirections.size() && i < max_redirections; ++i) {
    request.to[i] = redirections[i].to;
    numbers.push_back(redirections[i].from);
  }
  const std::lock_guard lock(mutex_);
  const auto reply = ask(socket_, request, numbers);
  return Keeper::of(reply.pid, std::move(ours));
}

void KeeperSource::keep_open(int descriptor) {
  const std::lock_guard lock(mutex_);
  (void)ask(socket_, {.kind = SourceRequest::Kind::keep_open}, {descriptor});
}

Survivors KeeperSource::sweep(const Keeper& keeper) noexcept {
  SourceRequest request{.kind = SourceRequest::Kind::sweep};
  {
    const std::lock_guard lock(lost_mutex_);
    lost_.push_back(keeper.pid());
  }
  const std::lock_guard lock(mutex_);
  {
    // Those of other commands too, which wait for their turn: then that takes no time.
    const std::lock_guard lost_lock(lost_mutex_);
    const auto count = std::min(lost_.size(), most_at_once);
    std::copy_n(lost_.begin(), count, request.keepers.begin());
    lost_.erase(lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  SourceReply reply;
  if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) < 0 ||
      recv(socket_.get(), &reply, sizeof reply, 0) != static_cast<ssize_t>(sizeof reply)) {
    return {.unlisted = true};
  }
  return reply.survivors;
}

}  // namespace holdfast::cli
