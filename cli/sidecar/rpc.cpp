#include <unistd.h>

#include <csignal>
#include <holdfast/open.hpp>
#include <vector>

#include "arguments/context.hpp"
#include "process/job_control.hpp"
#include "rpc/methods/openrpc.hpp"
#include "rpc/transport/server.hpp"
#include "rpc/transport/unix_socket.hpp"
#include "sidecar/sidecar_metrics.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

struct RpcOptions {
  std::optional<std::string> listen;
  SidecarMetrics::Options metrics;
  bool allow_anonymous = false;
  bool print_schema = false;
  TaskLimits task_limits;
  QueueLimits queue_limits;
};

/// Signals that the caller ignores are left alone: nohup's SIGHUP, for one.
std::vector<int> stop_signals() {
  const InheritedSignals inherited;
  std::vector<int> signals{SIGTERM, SIGINT, SIGHUP};
  std::erase_if(signals, [&](int signal) { return inherited.ignores(signal); });
  return signals;
}

/// `serve` and --metrics-listen write a Unix socket as unix:PATH; here both forms are understood.
std::string socket_path(const std::string& address) {
  constexpr std::string_view scheme = "unix:";
  return address.starts_with(scheme) ? address.substr(scheme.size()) : address;
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
  complain("rpc: the store did not answer in time; locks that were not released expire with their leases",
           {.event = "stop_timed_out", .level = LogSeverity::error});
  _exit(exit_unavailable);
}

int serve(const Context& context, const RpcOptions& options) {
  options.task_limits.check();
  std::signal(SIGPIPE, SIG_IGN);
  SidecarMetrics metrics(options.metrics);
  auto holdfast = open_store(context, {.observer = metrics.observer(), .logged = LoggedActivities::all});
  const auto tasks = options.task_limits.options(holdfast.task_options(), options.allow_anonymous);
  const auto queues = options.queue_limits.options(holdfast.queue_options(), tasks);
  rpc::Server server(std::move(holdfast),
                     {.queues = queues,
                      .stop_signals = stop_signals(),
                      .on_second_signal = [](int signal) { _exit(exit_signal_base + signal); },
                      .on_stop_timeout = give_up,
                      .on_client_count = [&metrics](std::size_t count) { metrics.set_clients(count); }});
  metrics.start();
  if (options.listen) {
    const auto path = socket_path(*options.listen);
    server.listen(listening_socket(path));
    complain("rpc: listening on " + quote(path),
             {.event = "listening", .fields = {{.name = "address", .value = "unix:" + path}}});
  } else {
    server.connect_stdio();
  }
  const auto write_error = server.run();
  if (write_error.empty()) return exit_ok;
  complain("rpc: cannot write responses (" + write_error + ")",
           {.event = "error", .level = LogSeverity::error});
  return exit_internal;
}

}  // namespace

void fill_rpc(Command command, Context& context) {
  auto options = std::make_shared<RpcOptions>();
  command.add_option(
      "--listen PATH", options->listen,
      "Serve many clients on a Unix socket (mode 0600; PATH or unix:PATH) instead of stdin and\n"
      "stdout");
  command.add_flag("--schema", options->print_schema,
                   "Print all methods, parameters and results as an OpenRPC document, and exit");
  options->metrics.add_to(command);
  command.add_flag("--allow-anonymous", options->allow_anonymous,
                   "Allow tasks of the anonymous owner `local`");
  options->task_limits.add_to(command);
  options->queue_limits.add_to(command);
  command.footer(
      "Each request and each response is one line of JSON. Requests run concurrently: match responses by "
      "id.\n"
      "\n"
      "  lock.acquire    one attempt; the lock stays held after you disconnect, until its ttl expires\n"
      "  lock.lock       waits; renewed while you are connected, released when you disconnect\n"
      "  lock.release, lock.extend, lock.isLocked, lock.lookup, lock.subscribe\n"
      "  task.create, task.get, task.list, task.claim, task.complete, task.wait, ...\n"
      "  queue.add, queue.claimNext, job.complete, job.retry, queue.wait, queue.counts, ...\n"
      "  $/cancelRequest    cancels a waiting request; holdfast.version lists all methods\n"
      "\n"
      "stdin may end before all responses are written. TERM, INT or HUP: releases the held locks, then exit "
      "0.\n"
      "rpc --schema describes the methods for programs, docs/reference/rpc.md for people; examples/clients/ "
      "has\n"
      "clients for Python, Node and shell.\n"
      "\n"
      "Examples:\n"
      "  echo "
      "'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"lock.acquire\",\"params\":{\"key\":\"k\",\"ttlMs\":30000}}"
      "' |\n"
      "    holdfast rpc\n"
      "  holdfast --url redis://cache.internal rpc --listen \"$XDG_RUNTIME_DIR/holdfast.sock\"");
  command.action([&context, options]() -> int {
    if (!options->print_schema) return serve(context, *options);
    print_indented(rpc::openrpc_document());
    return exit_ok;
  });
}

}  // namespace holdfast::cli
