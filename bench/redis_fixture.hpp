// A redis-server of a benchmark's own, and what to compare with: hiredis, and a bare load generator.

#pragma once

#include <hiredis/hiredis.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

namespace fs = std::filesystem;

inline std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Keeps a process (0: this one, with the threads it will have) on one processor, or lets it go (-1).
inline void pin(pid_t process, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (processor < 0 || i == processor) CPU_SET(static_cast<std::size_t>(i), &set);
  }
  sched_setaffinity(process, sizeof set, &set);
}

/// On loopback TCP, without persistence.
class Server {
 public:
  explicit Server(int port) : port_(port) {
    std::string name = (fs::temp_directory_path() / "holdfast-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    dir_ = name;
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      // A benchmark that fails must not leave a server behind: it would keep the port, and the other end of a
      // pipe.
      if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(126);
      if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
      execlp("redis-server", "redis-server", "--port", std::to_string(port_).c_str(), "--bind", "127.0.0.1",
             "--save", "", "--appendonly", "no", "--dir", dir_.c_str(), nullptr);
      _exit(127);
    }
    for (int attempt = 0; attempt < 300; ++attempt) {
      redisContext* context = redisConnect("127.0.0.1", port_);
      const bool up = context != nullptr && context->err == 0;
      redisFree(context);
      if (up) return;
      usleep(10'000);
    }
    throw std::runtime_error("redis-server does not start; is it installed, and the port free?");
  }
  ~Server() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

 private:
  int port_;
  fs::path dir_;
  pid_t pid_ = -1;
};

/// A plain hiredis connection.
class Raw {
 public:
  explicit Raw(int port) : context_(redisConnect("127.0.0.1", port)) {
    if (context_ == nullptr || context_->err != 0) throw std::runtime_error("cannot connect");
  }
  ~Raw() { redisFree(context_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  [[nodiscard]] redisContext* get() const { return context_; }

  void append(const std::vector<std::string_view>& arguments) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto argument : arguments) {
      texts.push_back(argument.data());
      sizes.push_back(argument.size());
    }
    redisAppendCommandArgv(context_, static_cast<int>(arguments.size()), texts.data(), sizes.data());
  }

  /// The next reply as text, an array's elements with commas; it must not be an error.
  std::string take() {
    void* raw = nullptr;
    if (redisGetReply(context_, &raw) != REDIS_OK) throw std::runtime_error(context_->errstr);
    auto* reply = static_cast<redisReply*>(raw);
    const bool failed = reply->type == REDIS_REPLY_ERROR;
    std::string text = described(*reply);
    freeReplyObject(reply);
    if (failed) throw std::runtime_error(text);
    return text;
  }

  std::string call(const std::vector<std::string_view>& arguments) {
    append(arguments);
    return take();
  }

 private:
  static std::string described(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_INTEGER) return std::to_string(reply.integer);
    if (reply.type != REDIS_REPLY_ARRAY) return reply.str != nullptr ? reply.str : "";
    std::string all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(reply.elements); ++i) {
      all += (i == 0 ? "" : ",") + described(*reply.element[i]);
    }
    return all;
  }

  redisContext* context_;
};

}  // namespace bench
