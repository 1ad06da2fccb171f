#include "support/redis_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "support/loopback.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Generous: a loaded machine under a sanitizer.
constexpr auto start_timeout = 20s;

std::optional<fs::path> find_server() {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const auto file = fs::path(directory) / "redis-server";
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

/// A child that runs `file config`, its output going to `log`.
pid_t spawn(const fs::path& file, const fs::path& config, const fs::path& log, bool sentinel) {
  const pid_t parent = ::getpid();
  std::string program = file.string(), argument = config.string(), mode = "--sentinel";
  char* const argv[] = {program.data(), argument.data(), sentinel ? mode.data() : nullptr, nullptr};
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  // From here on only what is safe after fork in a process with threads.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) ::_exit(125);
  ::close_range(3, ~0U, 0);  // it must not keep a socket of the test open
  ::execv(argv[0], argv);
  ::_exit(125);
}

/// The answer to a PING at the socket; empty if there is none.
std::optional<std::string> ping(const std::string& unix_socket) {
  try {
    RedisOptions where;
    where.unix_socket = unix_socket;
    return std::string(redis::text_of(*RawRedis(where).command({"PING"})));
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

bool is_ready(const std::optional<std::string>& answer, RedisServer::Until until) {
  if (!answer) return false;
  return until == RedisServer::Until::listening || *answer == "PONG" || answer->starts_with("NOAUTH") ||
         answer->starts_with("MASTERDOWN");
}

}  // namespace

RedisServer::RedisServer(Options options) : options_(std::move(options)) {
  if (options_.tls) {
    authority_.emplace(directory_.path());
    (void)authority_->issue({.name = "server", .names = {"DNS:localhost", "IP:127.0.0.1", "IP:::1"}});
  }
  for (int attempt = 0; attempt < 20; ++attempt) {
    port_ = free_loopback_port();
    if (options_.tls) tls_port_ = free_loopback_port();
    write_config();
    if (launch(Until::ready)) return;
    // Another process took the port first, which a retry solves; other errors are permanent.
    if (log().find("Address already in use") == std::string::npos) break;
  }
  throw std::runtime_error("redis-server does not start:\n" + log());
}

RedisServer::~RedisServer() {
  if (pid_ > 0) end(SIGKILL);
}

RedisOptions RedisServer::tcp() const {
  RedisOptions where;
  where.port = port_;
  where.password = options_.password;
  return where;
}

RedisOptions RedisServer::unix_socket() const {
  auto where = tcp();
  where.unix_socket = directory_ / "redis.sock";
  return where;
}

RedisOptions RedisServer::tls() const {
  auto where = tcp();
  where.port = tls_port_;
  where.tls = true;
  where.tls_ca_file = authority_->file();
  return where;
}

std::string RedisServer::url() const {
  const auto credentials = options_.password.empty() ? "" : ":" + options_.password + "@";
  return "redis://" + credentials + "127.0.0.1:" + std::to_string(port_);
}

std::string RedisServer::unix_url() const {
  return "unix:" + (directory_ / "redis.sock").string();
}

std::string RedisServer::tls_url() const {
  const auto credentials = options_.password.empty() ? "" : ":" + options_.password + "@";
  return "rediss://" + credentials + "127.0.0.1:" + std::to_string(tls_port_) +
         "?tls_ca=" + authority_->file().string();
}

CertificateAuthority::Issued RedisServer::client_certificate() const {
  return authority_->issue({.name = "client"});
}

std::string RedisServer::log() const {
  std::ostringstream text;
  text << std::ifstream(directory_ / "log").rdbuf();
  return text.str();
}

void RedisServer::write_config() const {
  std::ofstream config(directory_ / "redis.conf");
  config << "bind 127.0.0.1 -::1\nport " << port_ << "\nunixsocket " << (directory_ / "redis.sock").string()
         << "\ndir " << directory_.path().string() << "\n";
  if (!options_.sentinel) {
    // Tests of half-built states need DEBUG; the server is reachable only on this machine's loopback.
    config << "enable-debug-command yes\nsave \"\"\n"
           // What is written survives SIGKILL without fsync; only a power cut would need it.
           << "appendfsync no\nappendonly " << (options_.persistent ? "yes" : "no") << "\n";
  }
  if (!options_.password.empty()) config << "requirepass " << options_.password << "\n";
  if (options_.tls) {
    config << "tls-port " << tls_port_ << "\ntls-cert-file " << (directory_ / "server.crt").string()
           << "\ntls-key-file " << (directory_ / "server.key").string() << "\ntls-ca-cert-file \""
           << authority_->file().string() << "\"\ntls-auth-clients no\n";
  }
  for (const auto& line : options_.config) config << line << "\n";
}

bool RedisServer::launch(Until until) {
  const auto program = find_server();
  if (!program) throw std::runtime_error("there is no redis-server on the PATH");
  fs::remove(directory_ / "redis.sock");
  pid_ = spawn(*program, directory_ / "redis.conf", directory_ / "log", options_.sentinel);
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  // The answer must come by the Unix socket: another test's server may have the TCP port. Redis makes that
  // socket after it has all its ports.
  const auto socket = directory_ / "redis.sock";
  const auto end_of_patience = std::chrono::steady_clock::now() + start_timeout;
  while (std::chrono::steady_clock::now() < end_of_patience) {
    if (is_ready(ping(socket), until)) return true;
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  end(SIGKILL);
  throw std::runtime_error("redis-server does not answer:\n" + log());
}

void RedisServer::start(Until until) {
  if (pid_ > 0) throw std::runtime_error("redis-server runs already");
  for (const auto end_of_patience = std::chrono::steady_clock::now() + 5s;
       std::chrono::steady_clock::now() < end_of_patience;) {
    if (launch(until)) return;
    std::this_thread::sleep_for(20ms);
  }
  throw std::runtime_error("redis-server does not start again:\n" + log());
}

void RedisServer::end(int signal) {
  if (pid_ <= 0) return;
  ::kill(pid_, signal);
  ::kill(pid_, SIGCONT);  // a paused one would keep a SIGTERM for later
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  paused_ = false;
}

void RedisServer::stop() {
  end(SIGTERM);
}

void RedisServer::kill() {
  end(SIGKILL);
}

void RedisServer::restart_into_loading() {
  if (!options_.persistent) throw std::runtime_error("this server has nothing to load");
  // While it loads, Redis looks up from its file once in 1024 commands.
  constexpr auto commands = "30000", microseconds_each = "100";
  raw().text({"EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'ballast:' .. i, '') end", "0", commands});
  kill();
  options_.config.push_back(std::string("key-load-delay ") + microseconds_each);
  write_config();
  options_.config.pop_back();
  start(Until::listening);
  write_config();
}

void RedisServer::wait_for_replicas(std::size_t count) const {
  auto connection = raw();
  connection.text({"PING"});  // as the first command of a connection, WAIT counts every replica at once
  const auto replicas = connection.integer({"WAIT", std::to_string(count), "30000"});
  if (replicas < static_cast<std::int64_t>(count)) {
    throw std::runtime_error("only " + std::to_string(replicas) + " replicas follow\n" + log());
  }
}

void RedisServer::pause() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
  paused_ = true;
}

void RedisServer::resume() {
  ::kill(pid_, SIGCONT);
  paused_ = false;
}

std::string redis_missing() {
  if (find_server()) return {};
  std::string why = "there is no redis-server on the PATH (Debian: apt-get install redis-server)";
  const char* all = std::getenv("HOLDFAST_REQUIRE_ALL");
  // Thrown: after a failure that is not fatal the test would run all the same, without a server.
  if (all != nullptr && std::string_view(all) == "1") throw std::runtime_error(why);
  return why;
}

std::string shared_redis_url() {
  if (const char* given = std::getenv("REDIS_URL"); given != nullptr && *given != '\0') return given;
  static const RedisServer server;
  return server.url();
}

std::string private_prefix() {
  static std::random_device random;
  std::ostringstream prefix;
  prefix << "hftest" << std::hex << random() << random();
  return prefix.str();
}

}  // namespace holdfast::test
