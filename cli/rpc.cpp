#include <holdfast/open.hpp>

#include "command.hpp"
#include "context.hpp"
#include "rpc/listening_socket.hpp"
#include "rpc/server.hpp"

namespace holdfast::cli {
namespace {

struct RpcOptions {
  std::optional<std::string> listen;
  bool allow_anonymous = false;
  TaskLimits task_limits;
};

int serve(const Context& context, const RpcOptions& options) {
  const auto task_options = options.task_limits.options(options.allow_anonymous);
  rpc::Server server(open(context.url_or_default()), task_options);
  if (!options.listen) return server.serve_stdio();
  return server.serve(std::make_unique<rpc::ListeningSocket>(*options.listen));
}

}  // namespace

void add_rpc(Command app, Context& context) {
  auto command = app.add_command("rpc", "Serve programs in any language: JSON-RPC 2.0, a line a message");
  auto options = std::make_shared<RpcOptions>();
  command
      .add_option("--listen", options->listen,
                  "Serve many clients on a Unix socket, which only you may use, in place of stdin and stdout")
      .value_name("PATH");
  command.add_flag("--allow-anonymous", options->allow_anonymous,
                   "Let the owner of a task be `local`, which is nobody in particular");
  options->task_limits.add_to(command);
  command.footer(
      "A request is a line of JSON, and so is its answer, which comes when it is ready: many may be under\n"
      "way at once, so tell the answers by their id.\n"
      "\n"
      "  lock.acquire    one attempt; the lock outlives you until its ttl is over\n"
      "  lock.lock       waits; renewed while you are connected, released when you go\n"
      "  lock.release, lock.extend, lock.isLocked, lock.lookup, lock.subscribe\n"
      "  task.create, task.get, task.list, task.claim, task.complete, task.wait, ...\n"
      "  $/cancelRequest    calls off what waits; holdfast.version tells all methods\n"
      "\n"
      "stdin may end before the answers have come. TERM, INT or HUP: releases what is held, then exit 0.\n"
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
