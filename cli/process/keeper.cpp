#include "process/keeper.hpp"

#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "rpc/posix/descriptor.hpp"

namespace holdfast::cli {

using posix::checked;
using posix::Descriptor;
using posix::throw_system_error;

Keeper Keeper::fork(const KeeperPlan& plan, const InheritedSignals& inherited) {
  std::array<int, 2> ends{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "cannot make a socket pair");
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const pid_t pid = checked(::fork(), "cannot start a process");
  if (pid == 0) {
    ours.reset();
    run_keeper(std::move(theirs), plan, inherited);
  }
  return {pid, std::move(ours)};
}

Keeper::~Keeper() {
  socket_.reset();
  constexpr int attempts = 1000;
  for (int i = 0; i < attempts && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Keeper::start(BootTime deadline, const std::vector<std::string>& environment, bool give_terminal) {
  const KeeperOrder order{.kind = KeeperOrder::Kind::start,
                          .deadline_ns = deadline.time_since_epoch().count(),
                          .give_terminal = give_terminal};
  std::string packet(sizeof order, '\0');
  std::memcpy(packet.data(), &order, sizeof order);
  for (const auto& variable : environment) packet.append(variable.c_str(), variable.size() + 1);
  if (packet.size() > max_keeper_packet) {
    throw Error(ErrorCode::InvalidArgument, "the HOLDFAST_ variables for the command are longer than 64 KiB");
  }
  if (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) {
    throw_system_error("cannot tell the process that watches over the command to start it");
  }
}

void Keeper::send(const KeeperOrder& order) noexcept {
  // Without waiting: a keeper that does not read is stopped or stuck, and must not block us. It misses
  // renewals then, and without those it stops the command.
  ::send(socket_.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Keeper::Received Keeper::next() noexcept {
  KeeperReport report;
  const auto n = recv(socket_.get(), &report, sizeof report, MSG_DONTWAIT);
  if (n == static_cast<ssize_t>(sizeof report)) return {report, false};
  const bool not_yet = n < 0 && (errno == EAGAIN || errno == EINTR);
  return {std::nullopt, !not_yet};
}

}  // namespace holdfast::cli
