#include "sidecar/sidecar_metrics.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include "arguments/values.hpp"
#include "metrics/metrics_page.hpp"
#include "serve/access/token_file.hpp"
#include "serve/transport/metrics_server.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

constexpr std::chrono::seconds write_interval{15};

serve::ListenAddress metrics_address(const std::string& text) {
  const auto address = serve::ListenAddress::parse(text);
  if (!address) throw UsageError("--metrics-listen: " + address.error().message());
  if (!address->is_unix() && !address->is_loopback()) {
    throw UsageError("--metrics-listen: " + address->text() +
                     " is not a loopback address. The sidecar has no TLS: use 127.0.0.1:PORT or unix:PATH");
  }
  return *address;
}

}  // namespace

void SidecarMetrics::Options::add_to(Command command) {
  file.add_to(command, "Write counters every 15 seconds");
  command
      .add_option("--metrics-listen ADDRESS", listen,
                  "Serve them at http://ADDRESS/metrics: 127.0.0.1:PORT, which needs the token of\n"
                  "--metrics-token-file as a bearer, or unix:PATH for a socket of mode 0600")
      .not_empty();
  command
      .add_option("--metrics-token-file FILE", token_file,
                  "File with the token for --metrics-listen IP:PORT; created (0600) if it does not exist")
      .not_empty();
}

SidecarMetrics::SidecarMetrics(const Options& options) : file_(options.file) {
  if (!file_.wanted() && !options.listen) {
    if (options.token_file) throw UsageError("--metrics-token-file: needs --metrics-listen");
    return;
  }
  metrics_ = std::make_shared<Metrics>();
  if (options.listen) listen(options);
}

void SidecarMetrics::listen(const Options& options) {
  serve::MetricsServer::Settings settings;
  auto& [access, token, page_of] = settings.site;
  access.hosts.listen = metrics_address(*options.listen);
  access.token_needed = !access.hosts.listen.is_unix();
  if (access.token_needed) {
    if (!options.token_file) {
      throw UsageError(
          "--metrics-listen: every user of this machine can connect to IP:PORT. Pass --metrics-token-file "
          "FILE, or "
          "use unix:PATH");
    }
    auto read = serve::read_or_create_token(*options.token_file, "--metrics-token-file");
    token = std::move(read.text);
    about_token_ = (read.created ? "; new token in " : "; token in ") + quote(*options.token_file);
  }
  page_of = [this] { return page(); };
  server_ = std::make_unique<serve::MetricsServer>(std::move(settings));
}

SidecarMetrics::~SidecarMetrics() {
  server_.reset();
  if (!writer_.joinable()) return;
  writer_.request_stop();
  writer_.join();
  write();
}

void SidecarMetrics::start() {
  if (server_) {
    const auto& address = server_->address();
    const auto where = address.is_unix() ? quote(address.text()) : "http://" + address.text() + "/metrics";
    complain("rpc: metrics on " + where + about_token_,
             {.event = "listening", .fields = {{.name = "address", .value = address.text()}}});
  }
  if (!file_.wanted()) return;
  // Signals are for the thread that serves.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::jthread([this](const std::stop_token& stop) { write_until(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void SidecarMetrics::write_until(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    write();
    never_.wait_for(lock, stop, write_interval, [] { return false; });
  }
}

void SidecarMetrics::write() {
  const auto failure = file_.replace([this](const MetricsFile::OldContent&) {
    auto text = MetricsPage::parse(page());
    text.add_label(job_label, file_.job());
    return text.text();
  });
  // Once: a disk that stays full must not fill the log as well.
  if (!failure.empty() && !std::exchange(failed_, true)) {
    complain("warning: --metrics-file was not written: " + failure, {.event = "metrics_not_written"});
  }
  if (failure.empty()) failed_ = false;
}

std::string SidecarMetrics::page() const {
  MetricsPage own;
  own.family("holdfast_rpc_clients", "gauge", "Connected clients of this sidecar.");
  own.sample({}, static_cast<double>(clients_.load()));
  return own.text() + metrics_->prometheus();
}

}  // namespace holdfast::cli
