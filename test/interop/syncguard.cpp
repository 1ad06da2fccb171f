#include "interop/syncguard.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Where scripts/interop-packages puts what package.json names.
const fs::path modules = fs::path(source_dir()) / "build" / "interop" / "node_modules";
const fs::path program = fs::path(source_dir()) / "test" / "interop" / "syncguard.cjs";

constexpr int patience_ms = 60'000;

bool is_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (::access((fs::path(directory) / name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

std::string SyncGuard::missing() {
  if (auto why = redis_missing(); !why.empty()) return why;
  std::string why;
  if (!is_on_path("node")) why = "there is no node on the PATH (Debian: apt-get install nodejs npm)";
  if (why.empty() && !fs::exists(modules / "ioredis"))
    why = "there is no ioredis; run scripts/interop-packages";
  const char* all = std::getenv("HOLDFAST_REQUIRE_ALL");
  if (!why.empty() && all != nullptr && std::string_view(all) == "1") throw std::runtime_error(why);
  return why;
}

SyncGuard::SyncGuard(const RedisServer& server, const std::string& prefix) {
  const std::string socket = server.unix_socket().unix_socket;
  const std::string scripts = vectors_dir() + "/documented";
  const std::string found_by = "NODE_PATH=" + modules.string();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error("socketpair failed");
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execlp("env", "env", found_by.c_str(), "node", program.c_str(), socket.c_str(), prefix.c_str(),
             scripts.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  pipe_ = ends[0];
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

SyncGuard::~SyncGuard() {
  ::close(pipe_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void SyncGuard::send(const json& request) {
  const std::string line = request.dump() + "\n";
  if (::send(pipe_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("the SyncGuard peer is gone");
  }
}

json SyncGuard::receive() {
  while (unread_.find('\n') == std::string::npos) {
    pollfd readable{.fd = pipe_, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, patience_ms) != 1)
      throw std::runtime_error("the SyncGuard peer does not answer");
    std::array<char, 4096> buffer{};
    const auto count = ::read(pipe_, buffer.data(), buffer.size());
    if (count <= 0) throw std::runtime_error("the SyncGuard peer ended");
    unread_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const auto end = unread_.find('\n');
  auto answer = json::parse(unread_.substr(0, end));
  unread_.erase(0, end + 1);
  if (answer.contains("error")) {
    throw std::runtime_error("the SyncGuard peer says: " + answer["error"].get<std::string>());
  }
  return answer;
}

json SyncGuard::ask(const json& request) {
  send(request);
  return receive();
}

std::optional<SyncGuard::Lock> SyncGuard::acquire(std::string_view key, std::chrono::milliseconds ttl) {
  const auto answer = ask({{"op", "acquire"}, {"key", key}, {"ttlMs", ttl.count()}});
  if (!answer.at("ok").get<bool>()) return std::nullopt;
  return Lock{.id = answer.at("lockId"), .fence = answer.at("fence"), .expires_at = answer.at("expiresAtMs")};
}

std::int64_t SyncGuard::release(std::string_view lock_id) {
  return ask({{"op", "release"}, {"lockId", lock_id}}).at("code");
}

std::int64_t SyncGuard::extend(std::string_view lock_id, std::chrono::milliseconds ttl) {
  return ask({{"op", "extend"}, {"lockId", lock_id}, {"ttlMs", ttl.count()}}).at("code");
}

bool SyncGuard::is_locked(std::string_view key) {
  return ask({{"op", "isLocked"}, {"key", key}}).at("locked");
}

json SyncGuard::lookup(std::string_view key) {
  return ask({{"op", "lookup"}, {"key", key}}).at("data");
}

json SyncGuard::lookup_by_id(std::string_view lock_id) {
  return ask({{"op", "lookupById"}, {"lockId", lock_id}}).at("data");
}

std::string SyncGuard::hash(std::string_view text) {
  return ask({{"op", "hash"}, {"text", text}}).at("hash");
}

json SyncGuard::names(std::string_view key, std::string_view lock_id) {
  return ask({{"op", "names"}, {"key", key}, {"lockId", lock_id}});
}

}  // namespace holdfast::test
