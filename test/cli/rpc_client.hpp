#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "program.hpp"

namespace holdfast::test {

/// One client of a sidecar. What comes back is sorted: answers by id, notifications by method. Waits are
/// bounded; what does not come is a test failure and a null. So is a result that its schema does not
/// describe.
class RpcClient {
 public:
  using json = nlohmann::json;

  /// Owns both; `to` may be the same as `from`.
  RpcClient(int from, int to) noexcept : from_(from), to_(to) {}
  RpcClient(RpcClient&& other) noexcept;
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  /// To a socket that somebody listens on, or is about to.
  static RpcClient connect(const std::filesystem::path& socket);

  void send(std::string_view bytes);
  /// Sends as much as there is room for without waiting; how much that was.
  std::size_t send_some(std::string_view bytes);
  /// Waits until the sidecar has taken all that was sent.
  [[nodiscard]] bool all_taken() const;
  /// Without waiting for the answer; its id.
  int request(std::string_view method, const json& params = json::object());
  void notify(std::string_view method, const json& params = json::object());

  /// The whole answer.
  json answer(const json& id);
  json call(std::string_view method, const json& params = json::object()) {
    return answer(request(method, params));
  }
  /// Must succeed, or fail.
  json result(std::string_view method, const json& params = json::object());
  json error(std::string_view method, const json& params = json::object());
  /// The params of the next notification of this method.
  json notification(std::string_view method);
  /// Whether there is an answer already, or comes within a moment.
  bool has_answer(const json& id, std::chrono::milliseconds moment);
  /// The next line that is there, whatever it is; nothing at the end or if none comes.
  std::optional<std::string> line(std::chrono::milliseconds patience = std::chrono::seconds(60));
  /// Waits until there is something to read.
  [[nodiscard]] bool something_came() const;
  /// Waits for the sidecar to close the connection.
  bool ended();

  void stop_sending();
  void close();
  /// Ends both directions of a socket in one step, as the end of a process does.
  void vanish();

 private:
  static json request_of(std::string_view method, const json& params);
  [[nodiscard]] bool take_one(std::chrono::milliseconds patience);

  int from_;
  int to_;
  int last_id_ = 0;
  std::map<int, std::string> methods_;  ///< of requests, by their ids
  bool at_end_ = false;
  std::string buffer_;
  std::deque<json> pending_;
};

/// `holdfast rpc` on pipes, with its one client.
class PipedSidecar {
 public:
  PipedSidecar(const std::filesystem::path& directory, const std::string& url,
               std::vector<std::string> options = {});
  RpcClient& client() { return *client_; }
  Program& program() { return *program_; }

 private:
  std::unique_ptr<Program> program_;
  std::optional<RpcClient> client_;
};

/// Starts sidecars on the engine of its choice.
class RpcTest : public CliTest {
 protected:
  [[nodiscard]] PipedSidecar piped(std::vector<std::string> options = {}) const {
    return {directory(), url(), std::move(options)};
  }
  /// `holdfast rpc --listen`; returns when clients can connect.
  [[nodiscard]] std::unique_ptr<Program> listening(Program::Options options = {}) const;
  [[nodiscard]] std::filesystem::path socket() const { return file("rpc.sock"); }
  [[nodiscard]] RpcClient connect() const { return RpcClient::connect(socket()); }
};

}  // namespace holdfast::test
