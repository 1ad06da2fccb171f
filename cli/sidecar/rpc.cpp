#include <unistd.h>

#include <csignal>
#include <holdfast/open.hpp>
#include <vector>

#include "arguments/context.hpp"
#include "process/job_control.hpp"
#include "rpc/transport/server.hpp"
#include "rpc/transport/unix_socket.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

struct RpcOptions {
  std::optional<std::string> listen;
  bool allow_anonymous = false;
  TaskLimits task_limits;
};

/// Signals that the caller ignores are left alone: nohup's SIGHUP, for one.
std::vector<int> stop_signals() {
  const InheritedSignals inherited;
  std::vector<int> signals{SIGTERM, SIGINT, SIGHUP};
  std::erase_if(signals, [&](int signal) { return inherited.ignores(signal); });
  return signals;
}

std::unique_ptr<rpc::UnixSocket> listening_socket(const std::string& path) {
  try {
    return std::make_unique<rpc::UnixSocket>(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    throw Error(error.code(), "--listen " + quote(path) + ": " + error.message(), error.cause());
  }
}

[[noreturn]] void give_up() {
  complain("rpc: the store did not answer in time; locks that were not released expire with their leases");
  _exit(exit_unavailable);
}

int serve(const Context& context, const RpcOptions& options) {
  const auto task_options = options.task_limits.options(options.allow_anonymous);
  rpc::Server server(open_store(context),
                     {.tasks = task_options,
                      .stop_signals = stop_signals(),
                      .on_second_signal = [](int signal) { _exit(exit_signal_base + signal); },
                      .on_stop_timeout = give_up});
  std::signal(SIGPIPE, SIG_IGN);
  if (options.listen) {
    server.listen(listening_socket(*options.listen));
    complain("rpc: listening on " + quote(*options.listen));
  } else {
    server.connect_stdio();
  }
  const auto write_error = server.run();
  if (write_error.empty()) return exit_ok;
  complain("rpc: cannot write responses (" + write_error + ")");
  return exit_internal;
}

}  // namespace

void fill_rpc(Command command, Context& context) {
  auto options = std::make_shared<RpcOptions>();
  command.add_option("--listen PATH", options->listen,
                     "Serve many clients on a Unix socket (mode 0600) instead of stdin and stdout");
  command.add_flag("--allow-anonymous", options->allow_anonymous,
                   "Allow tasks of the anonymous owner `local`");
  options->task_limits.add_to(command);
  command.footer(
      "Each request and each response is one line of JSON. Requests run concurrently: match responses by "
      "id.\n"
      "\n"
      "  lock.acquire    one attempt; the lock stays held after you disconnect, until its ttl expires\n"
      "  lock.lock       waits; renewed while you are connected, released when you disconnect\n"
      "  lock.release, lock.extend, lock.isLocked, lock.lookup, lock.subscribe\n"
      "  task.create, task.get, task.list, task.claim, task.complete, task.wait, ...\n"
      "  $/cancelRequest    cancels a waiting request; holdfast.version lists all methods\n"
      "\n"
      "stdin may end before all responses are written. TERM, INT or HUP: releases the held locks, then exit "
      "0.\n"
      "The methods are in docs/reference/rpc.md; examples/clients/ has clients for Python, Node and shell.\n"
      "\n"
      "Examples:\n"
      "  echo "
      "'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"lock.acquire\",\"params\":{\"key\":\"k\",\"ttlMs\":30000}}"
      "' |\n"
      "    holdfast rpc\n"
      "  holdfast --url redis://cache.internal rpc --listen \"$XDG_RUNTIME_DIR/holdfast.sock\"");
  command.action([&context, options] { return serve(context, *options); });
}

}  // namespace holdfast::cli
