#include "rpc_client.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "json_schema.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds patience = std::chrono::seconds(20);

milliseconds left_until(steady_clock::time_point end) {
  return std::max(milliseconds::zero(), std::chrono::ceil<milliseconds>(end - steady_clock::now()));
}

}  // namespace

RpcClient::RpcClient(RpcClient&& other) noexcept
    : from_(std::exchange(other.from_, -1)),
      to_(std::exchange(other.to_, -1)),
      last_id_(other.last_id_),
      methods_(std::move(other.methods_)),
      at_end_(other.at_end_),
      buffer_(std::move(other.buffer_)),
      pending_(std::move(other.pending_)) {}

RpcClient::~RpcClient() {
  close();
}

void RpcClient::close() {
  stop_sending();
  if (from_ >= 0) ::close(std::exchange(from_, -1));
}

void RpcClient::vanish() {
  if (to_ != from_) ADD_FAILURE() << "pipes are closed one after the other";
  to_ = -1;
  if (from_ >= 0) ::close(std::exchange(from_, -1));
}

void RpcClient::stop_sending() {
  if (to_ == from_ && to_ >= 0) shutdown(to_, SHUT_WR);
  if (to_ != from_ && to_ >= 0) ::close(to_);
  to_ = -1;
}

RpcClient RpcClient::connect(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  int fd = -1;
  const bool connected = eventually([&] {
    fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
    ::close(fd);
    return false;
  });
  if (!connected) throw std::runtime_error("nobody listens on " + socket.string());
  return {fd, fd};
}

void RpcClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = to_ == from_ ? ::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                   : write(to_, bytes.data(), bytes.size());
    if (sent <= 0) throw std::runtime_error("the sidecar takes no more");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::size_t RpcClient::send_some(std::string_view bytes) {
  pollfd writable{to_, POLLOUT, 0};
  if (poll(&writable, 1, 300) <= 0) return 0;
  const auto sent = ::send(to_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

bool RpcClient::all_taken() const {
  // What a pipe holds can be asked at either end; of a socket, the end that sends knows.
  return eventually([this] {
    int left = -1;
    return ioctl(to_, to_ == from_ ? SIOCOUTQ : FIONREAD, &left) == 0 && left == 0;
  });
}

json RpcClient::request_of(std::string_view method, const json& params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", params}};
}

int RpcClient::request(std::string_view method, const json& params) {
  auto request = request_of(method, params);
  request["id"] = ++last_id_;
  methods_[last_id_] = method;
  send(request.dump() + "\n");
  return last_id_;
}

void RpcClient::notify(std::string_view method, const json& params) {
  send(request_of(method, params).dump() + "\n");
}

std::optional<std::string> RpcClient::line(milliseconds wait) {
  const auto end = steady_clock::now() + wait;
  std::size_t scanned = 0;  // a line may be long
  while (true) {
    const auto newline = buffer_.find('\n', scanned);
    if (newline != std::string::npos) {
      auto text = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      return text;
    }
    scanned = buffer_.size();
    pollfd readable{from_, POLLIN, 0};
    if (at_end_ || poll(&readable, 1, static_cast<int>(left_until(end).count())) <= 0) return std::nullopt;
    std::array<char, 65536> bytes{};
    const auto got = read(from_, bytes.data(), bytes.size());
    if (got <= 0) {
      at_end_ = true;
    } else {
      buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
}

bool RpcClient::take_one(milliseconds wait) {
  const auto text = line(wait);
  if (!text) return false;
  auto message = json::parse(*text, nullptr, false);
  if (message.is_discarded()) ADD_FAILURE() << "this is no JSON: " << *text;
  pending_.push_back(std::move(message));
  return true;
}

bool RpcClient::has_answer(const json& id, milliseconds moment) {
  const auto end = steady_clock::now() + moment;
  const auto is_it = [&](const json& message) {
    return message.is_object() && message.value("id", json("")) == id;
  };
  while (std::ranges::none_of(pending_, is_it)) {
    if (!take_one(left_until(end))) return false;
  }
  return true;
}

json RpcClient::answer(const json& id) {
  if (!has_answer(id, patience)) {
    ADD_FAILURE() << "no answer to the request " << id
                  << (at_end_ ? "; the sidecar closed the connection" : "");
    return {};
  }
  const auto found = std::ranges::find_if(pending_, [&](const json& message) {
    return message.is_object() && message.value("id", json("")) == id;
  });
  auto message = std::move(*found);
  pending_.erase(found);
  EXPECT_EQ(message.value("jsonrpc", ""), "2.0");
  EXPECT_NE(message.contains("result"), message.contains("error")) << message;
  const auto method = id.is_number_integer() ? methods_.find(id.get<int>()) : methods_.end();
  if (method != methods_.end() && message.contains("result")) {
    EXPECT_EQ(misfit_of_result(method->second, message["result"]), "") << method->second << message;
  }
  return message;
}

json RpcClient::result(std::string_view method, const json& params) {
  auto message = call(method, params);
  if (!message.contains("result")) {
    ADD_FAILURE() << method << params << ": " << message;
    return {};
  }
  return message["result"];
}

json RpcClient::error(std::string_view method, const json& params) {
  auto message = call(method, params);
  if (!message.contains("error")) {
    ADD_FAILURE() << method << params << ": " << message;
    return {{"code", 0}, {"message", ""}, {"data", {{"code", ""}}}};
  }
  return message["error"];
}

json RpcClient::notification(std::string_view method) {
  const auto end = steady_clock::now() + patience;
  const auto is_it = [&](const json& message) {
    return message.is_object() && !message.contains("id") && message.value("method", "") == method;
  };
  while (true) {
    const auto found = std::ranges::find_if(pending_, is_it);
    if (found != pending_.end()) {
      auto params = (*found)["params"];
      pending_.erase(found);
      return params;
    }
    if (take_one(left_until(end))) continue;
    ADD_FAILURE() << "no notification " << method;
    return {};
  }
}

bool RpcClient::something_came() const {
  pollfd readable{from_, POLLIN, 0};
  return poll(&readable, 1, static_cast<int>(patience.count())) > 0;
}

bool RpcClient::ended() {
  while (take_one(patience)) {
  }
  return at_end_;
}

PipedSidecar::PipedSidecar(const std::filesystem::path& directory, const std::string& url,
                           std::vector<std::string> options) {
  std::array<int, 2> requests{};
  std::array<int, 2> answers{};
  if (pipe2(requests.data(), O_CLOEXEC) != 0 || pipe2(answers.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes");
  }
  std::vector<std::string> command{holdfast_program(), "--url", url, "rpc"};
  command.insert(command.end(), options.begin(), options.end());
  program_ =
      std::make_unique<Program>(directory, command, Program::Options{.before_exec = [requests, answers] {
                                  dup2(requests[0], STDIN_FILENO);
                                  dup2(answers[1], STDOUT_FILENO);
                                }});
  ::close(requests[0]);
  ::close(answers[1]);
  client_.emplace(answers[0], requests[1]);
}

std::unique_ptr<Program> RpcTest::listening(Program::Options options) const {
  auto program = start({"rpc", "--listen", socket().string()}, std::move(options));
  (void)connect();  // waits
  return program;
}

}  // namespace holdfast::test
