#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <holdfast/metrics.hpp>
#include <holdfast/open.hpp>
#include <holdfast/sqlite.hpp>
#include <memory>
#include <vector>

#include "arguments/context.hpp"
#include "arguments/values.hpp"
#include "process/job_control.hpp"
#include "serve/access/token_file.hpp"
#include "serve/transport/server.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

struct ServeOptions {
  std::string listen = "127.0.0.1:4780";
  std::optional<std::string> token_file;
  std::string hosts;
  std::string tls_cert;
  std::string tls_key;
  bool behind_proxy = false;
  bool show_data = false;
  bool allow_actions = false;
};

/// Signals that the caller ignores are left alone: nohup's SIGHUP, for one.
std::vector<int> signals_that_stop_serve() {
  const InheritedSignals inherited;
  std::vector<int> signals{SIGTERM, SIGINT, SIGHUP};
  std::erase_if(signals, [&](int signal) { return inherited.ignores(signal); });
  return signals;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start < list.size();) {
    const auto end = std::min(list.find(',', start), list.size());
    if (end > start) names.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return names;
}

/// Beside the default store, whose directory is the user's own.
std::filesystem::path default_token_file() {
  const auto directory = default_sqlite_file().value_or_throw().parent_path();
  if (!std::filesystem::exists(directory)) {
    std::filesystem::create_directories(directory);
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
  }
  return directory / "serve.token";
}

serve::AccessRules access_rules(const ServeOptions& options) {
  serve::AccessRules rules;
  rules.hosts.listen = serve::ListenAddress::parse(options.listen).value_or_throw();
  rules.hosts.tls = !options.tls_cert.empty();
  rules.hosts.behind_proxy = options.behind_proxy;
  rules.hosts.names = names_in(options.hosts);
  rules.allow_actions = options.allow_actions;
  const auto& listen = rules.hosts.listen;
  // The mode of a Unix socket decides who connects; a proxy would let others in.
  rules.token_needed = !listen.is_unix() || options.behind_proxy;
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    throw UsageError("--tls-cert and --tls-key: give both");
  }
  if (listen.is_unix() && rules.hosts.tls) {
    throw UsageError("--tls-cert: a Unix socket has no TLS; the token and the data do not leave the machine");
  }
  if (!listen.is_loopback() && !rules.hosts.tls && !options.behind_proxy) {
    throw UsageError("--listen " + listen.text() +
                     ": other machines could read the token on its way. Pass --tls-cert and --tls-key, or "
                     "--behind-proxy if a proxy with TLS is the only client.");
  }
  return rules;
}

std::string url_of(const serve::ListenAddress& address, bool tls) {
  return address.is_unix() ? quote(address.text()) : (tls ? "https://" : "http://") + address.text() + "/";
}

void log_audit_line(const serve::AuditLine& line) {
  if (!logs_json()) return complain("serve: " + line.text());
  const bool refused = line.event == "login_refused";
  LogDetails details{.event = line.event, .level = refused ? LogSeverity::warning : LogSeverity::info};
  for (const auto& [name, value, is_text] : line.fields) {
    if (name == "key") {
      details.fields.push_back(key_field(value));
    } else {
      details.fields.push_back({.name = name == "id" ? "task_id" : std::string_view(name), .value = value});
    }
  }
  log_event(details);
}

int serve_http(const Context& context, const ServeOptions& options) {
  serve::Server::Settings settings;
  settings.site.access = access_rules(options);
  std::string about_token;
  if (settings.site.access.token_needed) {
    const auto file = options.token_file ? std::filesystem::path(*options.token_file) : default_token_file();
    auto token = serve::read_or_create_token(file);
    settings.site.token = std::move(token.text);
    about_token = (token.created ? "; new token in " : "; token in ") + quote(file.string());
  }
  settings.site.show_data = options.show_data;
  settings.site.store_url = context.url_or_default();
  settings.site.metrics = std::make_shared<Metrics>();
  settings.site.log = log_audit_line;
  settings.certificate_file = options.tls_cert;
  settings.key_file = options.tls_key;
  settings.stop_signals = signals_that_stop_serve();
  settings.on_second_signal = [](int signal) { _exit(exit_signal_base + signal); };
  const bool tls = settings.site.access.hosts.tls;
  auto metrics = settings.site.metrics;
  std::signal(SIGPIPE, SIG_IGN);
  serve::Server server(
      open_store(context, {.observer = std::move(metrics), .logged = LoggedActivities::incidents}),
      std::move(settings));
  complain("serve: listening on " + url_of(server.address(), tls) + about_token,
           {.event = "listening", .fields = {{.name = "address", .value = server.address().text()}}});
  server.run();
  return exit_ok;
}

}  // namespace

void fill_serve(Command command, Context& context) {
  auto options = std::make_shared<ServeOptions>();
  command
      .add_option("--listen ADDRESS", options->listen,
                  "IP:PORT, or unix:PATH for a socket of mode 0600 (default 127.0.0.1:4780)")
      .not_empty();
  command
      .add_option("--token-file FILE", options->token_file,
                  "File with the token that clients need; created (0600) if it does not exist\n"
                  "(default: serve.token in your state directory)")
      .not_empty();
  command.add_option("--host NAMES", options->hosts,
                     "More names of this server, separated by commas, as clients write them");
  command.add_option("--tls-cert FILE", options->tls_cert, "Serve HTTPS with this certificate chain (PEM)");
  command.add_option("--tls-key FILE", options->tls_key, "Its private key (PEM)");
  command.add_flag("--behind-proxy", options->behind_proxy,
                   "Allow plain HTTP beyond loopback: a proxy with TLS is the only client");
  command.add_flag("--show-data", options->show_data, "Show variables and results of tasks");
  command.add_flag("--allow-actions", options->allow_actions,
                   "Allow to break locks, and to cancel and remove tasks; each is logged");
  command.footer(
      "A page with locks, tasks, events and doctor's findings, live; /metrics for Prometheus; a JSON API\n"
      "(/openapi.json describes it). All but /healthz need the token: the page asks for it, programs send\n"
      "Authorization: Bearer TOKEN. A Unix socket needs none: only its owner can connect.\n"
      "TERM, INT or HUP: exit 0.\n"
      "\n"
      "Examples:\n"
      "  holdfast --url redis://cache.internal serve\n"
      "  holdfast serve --listen unix:/run/user/1000/holdfast.sock --allow-actions\n"
      "  holdfast serve --listen 0.0.0.0:4780 --tls-cert cert.pem --tls-key key.pem --host ops.example.com");
  command.action([&context, options] { return serve_http(context, *options); });
}

}  // namespace holdfast::cli
