#include "support/tcp_proxy.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <optional>
#include <string>

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;
using Way = TcpProxy::Way;
using Ending = TcpProxy::Ending;

constexpr std::array both_ways{Way::to_server, Way::to_client};
constexpr Way opposite(Way way) {
  return way == Way::to_server ? Way::to_client : Way::to_server;
}
/// Long enough for the receiver to take one byte before the next.
constexpr auto drip_interval = std::chrono::microseconds(100);

struct Fault {
  bool hold = false;
  bool swallow = false;
  bool drip = false;
  Clock::duration delay{};
  std::optional<std::size_t> cut_after = std::nullopt;
  Ending ending = Ending::rst;
};

struct Chunk {
  std::string bytes;
  Clock::time_point due;
};

/// One direction of one connection: from its source's socket, through here, to the other's.
struct Flow {
  std::deque<Chunk> waiting;
  bool ended = false;   // the source sent its end
  bool closed = false;  // and we have passed it on
  [[nodiscard]] std::size_t size() const {
    std::size_t bytes = 0;
    for (const auto& chunk : waiting) bytes += chunk.bytes.size();
    return bytes;
  }
};

struct Connection {
  Socket client, server;
  std::array<Flow, 2> flows;
  bool over = false;
  bool silent = false;

  [[nodiscard]] Flow& flow(Way way) { return flows[static_cast<std::size_t>(way)]; }
  [[nodiscard]] Socket& source(Way way) { return way == Way::to_server ? client : server; }
  [[nodiscard]] Socket& sink(Way way) { return way == Way::to_server ? server : client; }

  void end(Ending ending) {
    for (auto* socket : {&client, &server}) {
      if (!socket->is_open()) continue;
      if (ending == Ending::rst) {
        socket->reset();
      } else {
        socket->close();
      }
    }
    over = true;
  }
};

}  // namespace

struct TcpProxy::State {
  std::uint16_t server_port = 0;
  Socket listener;
  bool listening = true;
  std::list<Connection> connections;
  std::array<Fault, 2> faults;
  std::array<std::size_t, 2> passed{};
  std::size_t accepted = 0;

  [[nodiscard]] Fault& fault(Way way) { return faults[static_cast<std::size_t>(way)]; }

  void accept() {
    auto client = accept_from(listener);
    if (!client.is_open()) return;
    ++accepted;
    auto server = connect_to_loopback(server_port);
    if (!server.is_open()) {
      client.reset();
      return;
    }
    auto& added = connections.emplace_back();
    added.client = std::move(client);
    added.server = std::move(server);
  }

  /// Reads from a source.
  void read(Connection& connection, Way way) {
    std::array<char, 65536> buffer{};
    const auto n = ::recv(connection.source(way).fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return leave(connection, way);
    auto& flow = connection.flow(way);
    if (n == 0) {
      flow.ended = true;
      return;
    }
    const auto& now_doing = fault(way);
    if (now_doing.swallow) return;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
    auto due = Clock::now() + now_doing.delay;
    if (!now_doing.drip) {
      flow.waiting.push_back({std::string(bytes), due});
      return;
    }
    for (const char byte : bytes) {
      if (!flow.waiting.empty()) due = std::max(due, flow.waiting.back().due + drip_interval);
      flow.waiting.push_back({std::string(1, byte), due});
    }
  }

  /// The source was reset. The other side is reset too, unless bytes of the source are still queued here:
  /// then those are delivered in their own time, and the answers are dropped.
  static void leave(Connection& connection, Way way) {
    connection.flow(way).ended = true;
    connection.source(way).reset();
    if (connection.flow(way).waiting.empty() || !connection.sink(way).is_open()) connection.end(Ending::rst);
  }

  /// Passes on the bytes that are due.
  void write(Connection& connection, Way way) {
    auto& flow = connection.flow(way);
    auto& now_doing = fault(way);
    auto& sink = connection.sink(way);
    if (flow.closed || !sink.is_open()) {
      flow.waiting.clear();
      flow.closed = flow.closed || flow.ended;
      return;
    }
    if (now_doing.hold) return;
    while (!flow.waiting.empty() && flow.waiting.front().due <= Clock::now()) {
      auto& bytes = flow.waiting.front().bytes;
      std::size_t allowed = bytes.size();
      if (now_doing.cut_after) allowed = std::min(allowed, *now_doing.cut_after);
      if (allowed > 0) {
        const auto n = ::send(sink.fd(), bytes.data(), allowed, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) return leave(connection, opposite(way));
        const auto sent = static_cast<std::size_t>(n);
        passed[static_cast<std::size_t>(way)] += sent;
        bytes.erase(0, sent);
        if (now_doing.cut_after) *now_doing.cut_after -= sent;
      }
      if (now_doing.cut_after && *now_doing.cut_after == 0) {
        now_doing.cut_after.reset();
        connection.end(now_doing.ending);
        return;
      }
      if (bytes.empty()) flow.waiting.pop_front();
    }
    if (flow.ended && flow.waiting.empty() && !flow.closed) {
      flow.closed = true;
      ::shutdown(sink.fd(), SHUT_WR);
    }
  }

  void sweep() {
    for (auto& connection : connections) {
      for (const auto way : both_ways) {
        if (!connection.over && !connection.silent) write(connection, way);
      }
      const auto& [up, down] = connection.flows;
      if (!connection.over && up.closed && down.closed) connection.end(Ending::fin);
    }
    connections.remove_if([](const Connection& connection) { return connection.over; });
  }

  /// When queued bytes are due; empty if only a socket event can bring work.
  [[nodiscard]] std::optional<Clock::time_point> next_due() {
    std::optional<Clock::time_point> first;
    for (auto& connection : connections) {
      for (const auto way : both_ways) {
        const auto& waiting = connection.flow(way).waiting;
        if (waiting.empty() || fault(way).hold || connection.silent) continue;
        if (!first || waiting.front().due < *first) first = waiting.front().due;
      }
    }
    return first;
  }
};

TcpProxy::TcpProxy(std::uint16_t server_port)
    : alarm_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), state_(std::make_unique<State>()) {
  state_->server_port = server_port;
  port_ = free_loopback_port();
  state_->listener = listen_on_loopback(port_);
  thread_ = std::thread([this] { work(*state_); });
}

TcpProxy::~TcpProxy() {
  order([this](State&) { ending_ = true; });
  thread_.join();
}

void TcpProxy::order(const std::function<void(State&)>& what) {
  std::unique_lock lock(mutex_);
  orders_.push_back(what);
  const auto mine = ++ordered_;
  ::eventfd_write(alarm_.fd(), 1);
  done_.wait(lock, [&] { return carried_out_ >= mine; });
}

template <class T>
T TcpProxy::ask(const std::function<T(State&)>& what) {
  T answer{};
  order([&](State& state) { answer = what(state); });
  return answer;
}

void TcpProxy::work(State& state) {
  while (true) {
    std::vector<pollfd> polled{{alarm_.fd(), POLLIN, 0},
                               {state.listening ? state.listener.fd() : -1, POLLIN, 0}};
    std::vector<std::pair<Connection*, Way>> sources;
    for (auto& connection : state.connections) {
      for (const auto way : both_ways) {
        // Closed, ended or overfull sources are left alone; hang-ups of those would come again and again.
        const bool listens = connection.source(way).is_open() && !connection.flow(way).ended &&
                             !connection.silent && connection.flow(way).size() < (1U << 20U);
        polled.push_back({listens ? connection.source(way).fd() : -1, POLLIN, 0});
        sources.emplace_back(&connection, way);
      }
    }
    timespec timeout{.tv_sec = 0, .tv_nsec = 0};
    const auto due = state.next_due();
    if (due) {
      // A sink without room is retried every millisecond.
      const auto wait = std::max<Clock::duration>(*due - Clock::now(), Clock::duration::zero());
      const auto ns = wait == Clock::duration::zero() ? 1'000'000 : std::chrono::nanoseconds(wait).count();
      timeout = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    }
    ::ppoll(polled.data(), polled.size(), due ? &timeout : nullptr, nullptr);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      auto [connection, way] = sources[i];
      if (polled[i + 2].revents != 0 && !connection->over && connection->source(way).is_open()) {
        state.read(*connection, way);
      }
    }
    if (polled[1].revents != 0) state.accept();
    state.sweep();

    // After that: what came before an order was treated as it was before the order.
    const std::lock_guard lock(mutex_);
    eventfd_t ignored = 0;
    ::eventfd_read(alarm_.fd(), &ignored);
    for (const auto& what : orders_) what(state);
    carried_out_ += orders_.size();
    orders_.clear();
    state.sweep();
    done_.notify_all();
    if (ending_) return;
  }
}

void TcpProxy::forward() {
  order([](State& state) { state.faults = {}; });
}
void TcpProxy::hold(Way way) {
  order([way](State& state) { state.fault(way).hold = true; });
}
void TcpProxy::swallow(Way way) {
  order([way](State& state) { state.fault(way).swallow = true; });
}
void TcpProxy::delay(Way way, std::chrono::microseconds by) {
  order([=](State& state) { state.fault(way).delay = by; });
}
void TcpProxy::drip(Way way) {
  order([way](State& state) { state.fault(way).drip = true; });
}
void TcpProxy::cut_after(Way way, std::size_t bytes, Ending ending) {
  order([=](State& state) {
    state.fault(way).cut_after = bytes;
    state.fault(way).ending = ending;
  });
}
void TcpProxy::cut(Ending ending) {
  order([ending](State& state) {
    for (auto& connection : state.connections) connection.end(ending);
  });
}
void TcpProxy::half_close(Way way) {
  order([way](State& state) {
    for (auto& connection : state.connections) {
      connection.flow(way).closed = true;
      if (connection.sink(way).is_open()) ::shutdown(connection.sink(way).fd(), SHUT_WR);
    }
  });
}
void TcpProxy::silence() {
  order([](State& state) {
    for (auto& connection : state.connections) connection.silent = true;
  });
}
void TcpProxy::lead_to(std::uint16_t server_port) {
  order([server_port](State& state) { state.server_port = server_port; });
}
void TcpProxy::refuse() {
  // Not closed: the port stays ours.
  order([](State& state) {
    state.listening = false;
    ::shutdown(state.listener.fd(), SHUT_RD);
  });
}
void TcpProxy::listen_again() {
  order([](State& state) {
    state.listening = true;
    ::listen(state.listener.fd(), 128);
  });
}

std::size_t TcpProxy::accepted() {
  return ask<std::size_t>([](State& state) { return state.accepted; });
}
std::size_t TcpProxy::passed(Way way) {
  return ask<std::size_t>([way](State& state) { return state.passed[static_cast<std::size_t>(way)]; });
}
std::size_t TcpProxy::held(Way way) {
  return ask<std::size_t>([way](State& state) {
    std::size_t bytes = 0;
    for (auto& connection : state.connections) bytes += connection.flow(way).size();
    return bytes;
  });
}

}  // namespace holdfast::test
