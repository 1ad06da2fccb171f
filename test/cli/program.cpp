#include "program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using std::chrono::milliseconds;

void redirect(int to, const std::filesystem::path& file, int flags) {
  const int fd = ::open(file.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0 || dup2(fd, to) < 0) _exit(125);
}

std::string unique_name(const std::string& suffix) {
  static std::atomic<int> next{0};
  return "program" + std::to_string(next++) + suffix;
}

}  // namespace

Program::Program(const std::filesystem::path& directory, const std::vector<std::string>& command,
                 const Options& options)
    : out_(directory / unique_name(".out")), err_(directory / unique_name(".err")) {
  const auto in = directory / unique_name(".in");
  std::ofstream(in) << options.input;
  std::vector<char*> arguments;
  for (const auto& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot start a process");  // kill(-1) would end every process
  if (pid_ > 0) return;
  setsid();
  redirect(0, in, O_RDONLY);
  redirect(1, out_, O_WRONLY | O_CREAT | O_TRUNC);
  redirect(2, err_, O_WRONLY | O_CREAT | O_TRUNC);
  for (const auto& one : options.environment) {
    const auto equals = one.find('=');
    setenv(one.substr(0, equals).c_str(), one.substr(equals + 1).c_str(), 1);
  }
  if (options.before_exec) options.before_exec();
  execvp(arguments[0], arguments.data());
  _exit(125);
}

Program::~Program() {
  if (finished()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::wait_until_it_handles(int number) const {
  const auto handles = [&] {
    const auto has = [](std::uint64_t mask, int signal) { return (mask >> (signal - 1) & 1U) != 0; };
    std::uint64_t caught = 0, blocked = 0;
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigCgt:")) caught = std::stoull(line.substr(7), nullptr, 16);
      if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(7), nullptr, 16);
    }
    // The C library blocks every signal for a moment around fork, and when it starts a thread: of the first
    // moment, before exec, nothing is left afterwards. The program itself never blocks SIGSEGV.
    return has(caught, number) || (has(blocked, number) && !has(blocked, SIGSEGV));
  };
  EXPECT_TRUE(eventually(handles));
}

void Program::signal(int number) const {
  kill(pid_, number);
}

bool Program::finished() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

Finished Program::wait(milliseconds patience) {
  Finished result{.code = -1000, .out = {}, .err = {}};
  if (eventually([this] { return finished(); }, patience)) {
    result.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  } else {
    ADD_FAILURE() << "the program still runs after " << patience.count() << " ms";
  }
  result.out = contents(out_);
  result.err = contents(err_);
  return result;
}

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

bool alive(pid_t pid) {
  const auto stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.at(name_end + 2) != 'Z' && stat.at(name_end + 2) != 'X';
}

pid_t pid_in(const std::filesystem::path& file) {
  std::string text;
  const bool written = eventually([&] {
    text = contents(file);
    return text.ends_with('\n');
  });
  // Thrown, so that the test ends here: it would go on to kill(-1), which ends every process of the machine.
  if (!written) throw std::runtime_error(file.string() + " was not written");
  const pid_t pid = std::stoi(text);
  if (pid <= 1) throw std::runtime_error(file.string() + " has no process: " + text);
  return pid;
}

CliTest::CliTest() {
  std::string name = (std::filesystem::temp_directory_path() / "holdfast-cli-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
  directory_ = name;
}

CliTest::~CliTest() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::unique_ptr<Program> CliTest::start(std::vector<std::string> arguments, Program::Options options) const {
  arguments.insert(arguments.begin(), holdfast_program());
  options.environment.insert(options.environment.begin(), "HOLDFAST_URL=" + url());
  options.environment.insert(options.environment.begin(), "DIR=" + directory_.string());
  options.environment.insert(options.environment.begin(), "HOLDFAST=" + holdfast_program());
  return std::make_unique<Program>(directory_, arguments, options);
}

Finished CliTest::holdfast(std::vector<std::string> arguments, Program::Options options) const {
  return start(std::move(arguments), std::move(options))->wait();
}

}  // namespace holdfast::test
