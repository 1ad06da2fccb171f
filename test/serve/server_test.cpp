#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <future>
#include <holdfast/holdfast.hpp>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "serve/http/limits.hpp"
#include "serve/http_client.hpp"
#include "serve/transport/server.hpp"
#include "support/certificates.hpp"
#include "support/eventually.hpp"
#include "support/prometheus_page.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const std::string token = "a-token-of-at-least-thirty-two-characters";

/// A server in this process, on the locks and tasks of this process.
class ServeHttp : public testing::Test {
 protected:
  void TearDown() override { end(); }

  void begin(const std::function<void(serve::Server::Settings&)>& change = {}) {
    serve::Server::Settings settings;
    settings.site.access.hosts.listen = serve::ListenAddress::parse("127.0.0.1:0").value_or_throw();
    settings.site.token = token;
    settings.site.store_url = "memory:";
    settings.site.metrics = metrics;
    settings.site.log = [this](const serve::AuditLine& line) {
      const std::scoped_lock lock(mutex);
      log.append(line.text()).append("\n");
    };
    if (change) change(settings);
    server.emplace(store, settings);
    thread = std::thread([this] { server->run(); });
  }
  void end() {
    if (!thread.joinable()) return;
    server->request_stop();
    thread.join();
    server.reset();
  }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(server->address().port); }
  /// `more`: header lines.
  [[nodiscard]] std::string get(const std::string& path, const std::string& more = bearer()) const {
    return "GET " + path + " HTTP/1.1\r\nHost: " + host() + "\r\n" + more + "\r\n";
  }
  [[nodiscard]] std::string post(const std::string& path, const json& body,
                                 const std::string& more = bearer()) const {
    const auto text = body.dump();
    return "POST " + path + " HTTP/1.1\r\nHost: " + host() + "\r\nContent-Type: application/json\r\n" + more +
           "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  }
  static std::string bearer() { return "Authorization: Bearer " + token + "\r\n"; }
  /// Retries while the store has not been read yet, as that answer says.
  HttpAnswer exchange(const std::string& bytes) const {
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (true) {
      HttpClient client(server->address().port);
      client.send(bytes);
      auto answer = client.answer();
      const bool is_early = answer.status == 503 && answer.body.find("NotReadYet") != std::string::npos;
      if (!is_early || std::chrono::steady_clock::now() > give_up_at) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  [[nodiscard]] std::string logged() {
    const std::scoped_lock lock(mutex);
    return log;
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  Holdfast store = open("memory:", {.metrics = metrics});
  std::mutex mutex;
  std::string log;
  std::optional<serve::Server> server;
  std::thread thread;
};

TEST_F(ServeHttp, HealthIsOpenAndAllElseNeedsTheToken) {
  begin();
  EXPECT_EQ(exchange(get("/healthz", "")).body, "ok\n");
  for (const char* path : {"/readyz", "/metrics", "/openapi.json", "/api/about", "/api/locks", "/api/tasks",
                           "/api/task?owner=a&id=b", "/api/queues", "/api/queue?name=a", "/api/doctor",
                           "/api/events", "/assets/page.js"}) {
    EXPECT_EQ(exchange(get(path, "")).status, 401) << path;
    EXPECT_EQ(exchange(get(path, "Authorization: Bearer wrong\r\n")).status, 401) << path;
    EXPECT_EQ(
        exchange(get(std::string(path) + (std::string(path).find('?') == std::string::npos ? "?" : "&") +
                         "token=" + token + "&access_token=" + token,
                     ""))
            .status,
        401)
        << "a token in a URL would be in logs and histories";
  }
  const auto page = exchange(get("/", ""));
  EXPECT_EQ(page.status, 401);
  EXPECT_NE(page.body.find("login.js"), std::string::npos);
  EXPECT_EQ(page.body.find("page.js"), std::string::npos);
  for (const char* path :
       {"/readyz", "/metrics", "/openapi.json", "/api/about", "/api/locks", "/api/tasks", "/api/doctor"}) {
    EXPECT_EQ(exchange(get(path)).status, 200) << path;
  }
}

TEST_F(ServeHttp, AHeadRequestGetsNoBodyThatCouldBeReadAsTheNextResponse) {
  begin();
  HttpClient client(server->address().port);
  for (const char* path : {"/healthz", "/metrics", "/api/events", "/nothing"}) {
    const auto request = get(path);
    client.send("HEAD" + request.substr(3) + get("/healthz"));
    const auto head = client.read_until("\r\n\r\n");
    ASSERT_TRUE(head) << path;
    const bool known = path != std::string("/nothing");
    EXPECT_TRUE(head->starts_with(known ? "HTTP/1.1 200" : "HTTP/1.1 404")) << *head;
    EXPECT_EQ(client.answer().body, "ok\n") << path;
  }
}

TEST_F(ServeHttp, AQueueIsShownWithItsTasksTheirPlacesAndWorkers) {
  const auto queue = store.queue("render/<b>");
  for (int i = 0; i < 101; ++i) queue.add({.method = "frame", .max_attempts = 3});
  auto job = queue.claim_next({.worker = "worker <b>"});
  ASSERT_TRUE(job);
  begin();
  const auto rows = json::parse(exchange(get("/api/queues?filter=REN")).body);
  ASSERT_EQ(rows.at("queues").size(), 1U) << rows;
  EXPECT_EQ(rows.at("queues").at(0).at("ready"), 100);
  EXPECT_EQ(rows.at("queues").at(0).at("working"), 1);

  const std::string path = "/api/queue?name=render%2F%3Cb%3E";
  const auto first = json::parse(exchange(get(path)).body);
  EXPECT_EQ(first.at("queue").at("tasks"), 101);
  ASSERT_EQ(first.at("tasks").size(), 100U);
  EXPECT_EQ(first.dump().find("variables"), std::string::npos) << "data is not shown";
  const auto rest =
      json::parse(exchange(get(path + "&cursor=" + first.at("cursor").get<std::string>())).body);
  ASSERT_EQ(rest.at("tasks").size(), 1U);
  EXPECT_FALSE(rest.contains("cursor"));
  // Tasks of one millisecond are in any order.
  auto all = first.at("tasks");
  all.push_back(rest.at("tasks").at(0));
  const auto claimed =
      std::ranges::find_if(all, [&](const json& task) { return task.at("id") == job->task().id; });
  ASSERT_NE(claimed, all.end());
  EXPECT_EQ(claimed->at("place"), "leased");
  EXPECT_EQ(claimed->at("worker"), "worker <b>");
  EXPECT_EQ(claimed->at("attempts"), 1);
  EXPECT_EQ(claimed->at("maxAttempts"), 3);

  EXPECT_EQ(exchange(get("/api/queue")).status, 400);
  EXPECT_EQ(exchange(get("/api/queue?name=%ff")).status, 400);
  EXPECT_EQ(exchange(get(path + "&cursor=nonsense")).status, 400);
  EXPECT_EQ(exchange(get(path + "&status=nonsense")).status, 400);
  EXPECT_EQ(json::parse(exchange(get(path + "&status=failed")).body).at("tasks").size(), 0U);
  EXPECT_EQ(json::parse(exchange(get("/api/queue?name=none")).body).at("tasks").size(), 0U);
  EXPECT_NE(exchange(get("/metrics")).body.find("queue=\"render/<b>\",place=\"working\"} 1"),
            std::string::npos);
}

TEST_F(ServeHttp, ForeignHostsAndOriginsAreRefused) {
  begin();
  const std::string rest = "\r\n" + bearer() + "\r\n";
  EXPECT_EQ(exchange("GET /api/locks HTTP/1.1\r\nHost: evil.example" + rest).status, 421);
  EXPECT_EQ(exchange("GET /api/locks HTTP/1.1\r\nHost: " + host() + "\r\nHost: evil.example" + rest).status,
            400);
  EXPECT_EQ(exchange("GET /api/locks HTTP/1.0\r\n" + bearer() + "\r\n").status, 400);
  // The absolute form is served as its path, under the same rules for the host.
  const auto absolute = [&](const std::string& target_host, const std::string& field) {
    return exchange("GET http://" + target_host + "/api/locks HTTP/1.1\r\nHost: " + field + rest).status;
  };
  EXPECT_EQ(absolute(host(), host()), 200);
  EXPECT_EQ(absolute("evil.example", "evil.example"), 421);
  EXPECT_EQ(absolute("evil.example", host()), 400);
  EXPECT_EQ(absolute(host(), "evil.example"), 400);
  EXPECT_EQ(exchange("GET http://" + host() + "/api/locks HTTP/1.1\r\nHost: " + host() + "\r\n\r\n").status,
            401);
  EXPECT_EQ(exchange(get("/api/locks", bearer() + "Origin: http://evil.example\r\n")).status, 403);
  EXPECT_EQ(exchange(get("/api/events", bearer() + "Sec-Fetch-Site: cross-site\r\n")).status, 403);
  const auto preflight =
      exchange("OPTIONS /api/locks/break HTTP/1.1\r\nHost: " + host() +
               "\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 405);
  EXPECT_EQ(preflight.head.find("Access-Control"), std::string::npos);
}

TEST_F(ServeHttp, ALoginExchangesTheTokenForACookie) {
  begin();
  EXPECT_EQ(exchange(post("/login", {{"token", "wrong"}}, "")).status, 401);
  EXPECT_NE(logged().find("login refused"), std::string::npos);
  EXPECT_EQ(exchange(post("/login", json::array(), "")).status, 401);
  const auto login = exchange(post("/login", {{"token", token}}, "Origin: http://" + host() + "\r\n"));
  ASSERT_EQ(login.status, 204) << login.body;
  const auto cookie = login.field("Set-Cookie");
  for (const char* attribute : {"HttpOnly", "SameSite=Strict", "Path=/"}) {
    EXPECT_NE(cookie.find(attribute), std::string::npos) << cookie;
  }
  EXPECT_EQ(cookie.find(token), std::string::npos);
  const auto session = "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n";
  EXPECT_EQ(exchange(get("/api/locks", session)).status, 200);
  EXPECT_NE(exchange(get("/", session)).body.find("page.js"), std::string::npos);
  const auto own = "Origin: http://" + host() + "\r\n";
  EXPECT_EQ(exchange(post("/logout", json::object(), session)).status, 403) << "without its origin";
  EXPECT_EQ(exchange(post("/logout", json::object(), session + own)).status, 204);
  EXPECT_EQ(exchange(get("/api/locks", session)).status, 401);
  EXPECT_EQ(logged().find(token), std::string::npos);
}

TEST_F(ServeHttp, BehindAProxyTheLogHasTheClientThatTheProxyNames) {
  begin([](auto& settings) { settings.site.access.hosts.behind_proxy = true; });
  // A proxy appends to the field, or adds one.
  const auto forged =
      "X-Forwarded-For: 10.9.9.9\r\nX-Forwarded-For: " + std::string(200, '1') + ", 10.1.2.3\r\n";
  EXPECT_EQ(exchange(post("/login", {{"token", "wrong"}}, forged)).status, 401);
  EXPECT_NE(logged().find("1, 10.1.2.3\" refused=1"), std::string::npos) << logged();
  EXPECT_EQ(logged().find("10.9.9.9"), std::string::npos) << logged();
  EXPECT_LT(logged().size(), 250U) << logged();
}

TEST_F(ServeHttp, RequestsHaveLimits) {
  begin();
  EXPECT_EQ(exchange(get("/healthz", "X: " + std::string(20'000, 'x') + "\r\n")).status, 431);
  EXPECT_EQ(exchange(post("/login", {{"token", std::string(100'000, 'x')}}, "")).status, 413);
  EXPECT_EQ(exchange("nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(exchange("POST /login HTTP/1.1\r\nHost: " + host() + "\r\nTransfer-Encoding: chunked\r\n\r\n" +
                     std::string(100'000, '0'))
                .status,
            431)
      << "the size of a chunk";
  HttpClient client(server->address().port);
  client.send(get("/healthz", "") + get("/nope", bearer()));
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(client.answer().status, 404) << "one after another on one connection";
}

TEST_F(ServeHttp, IdleConnectionsMakeRoomForOthers) {
  begin();
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (std::size_t i = 0; i < serve::max_connections + 20; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server->address().port));
  }
  EXPECT_EQ(exchange(get("/healthz", "")).status, 200);
}

/// Any user of the machine can open connections, without the token.
TEST_F(ServeHttp, RequestsThatNeverEndMakeRoomForOthers) {
  begin();
  const auto whole = post("/login", {{"token", "x"}}, "");
  for (const auto& begun : {get("/healthz", "").substr(0, 30), whole.substr(0, whole.size() - 1)}) {
    std::vector<std::unique_ptr<HttpClient>> slow;
    for (std::size_t i = 0; i < serve::max_connections + 20; ++i) {
      slow.push_back(std::make_unique<HttpClient>(server->address().port));
      slow.back()->send(begun);
    }
    EXPECT_EQ(exchange(get("/api/locks")).status, 200);
  }
}

TEST_F(ServeHttp, AStreamSendsEverythingAndThenTheChanges) {
  begin();
  const auto before = store.locks().lock("before");
  HttpClient client(server->address().port);
  client.send(get("/api/events"));
  const auto head = client.read_until("\r\n\r\n");
  ASSERT_TRUE(head);
  EXPECT_NE(head->find("text/event-stream"), std::string::npos);
  ASSERT_TRUE(client.read_until("event: snapshot\n"));
  ASSERT_TRUE(client.read_until("\"key\":\"before\""));
  const auto after = store.locks().lock("after");
  ASSERT_TRUE(client.read_until("event: changes\n"));
  ASSERT_TRUE(client.read_until("\"key\":\"after\""));
  end();
  EXPECT_TRUE(client.is_closed()) << "the server ends its streams";
}

TEST_F(ServeHttp, AStreamEndsWithItsSession) {
  begin();
  const auto login = exchange(post("/login", {{"token", token}}, "Origin: http://" + host() + "\r\n"));
  const auto cookie = login.field("Set-Cookie");
  const auto session = "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n";
  HttpClient client(server->address().port);
  client.send(get("/api/events", session));
  ASSERT_TRUE(client.read_until("event: snapshot\n"));
  EXPECT_EQ(exchange(post("/logout", json::object(), session + "Origin: http://" + host() + "\r\n")).status,
            204);
  EXPECT_TRUE(eventually([&] {
    const PrometheusPage page(exchange(get("/metrics")).body);
    return page.value("holdfast_serve_event_streams{backend=\"memory\"}") == 0;
  }));
}

/// The last snapshot before the readers left says that the store is down.
TEST(ServeLiveFeed, DoesNotTakeAnOldSnapshotForTheAnswerOfAStore) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer redis;
  asio::io_context io;
  view::StoreView view(open(redis.url() + "?command_timeout=1"));
  serve::LiveFeed feed(io.get_executor(), view);
  redis.stop();
  {
    const serve::LiveFeed::Stream reader(feed);
    ASSERT_TRUE(eventually([&] { return view.latest()->reachability == view::Reachability::down; }));
  }
  redis.start();
  std::shared_ptr<const view::Snapshot> found;
  const auto asked_at = BootClock::now();
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        found = co_await feed.fresh(20s);
        feed.stop();
      },
      asio::detached);
  io.run();
  ASSERT_TRUE(found);
  EXPECT_GE(found->made_at, asked_at) << found->error;
}

TEST_F(ServeHttp, ALockIsBrokenOnlyWithTheFenceThatWasShown) {
  begin([](auto& settings) { settings.site.access.allow_actions = true; });
  const auto guard = store.locks().lock("k");
  const auto fence = guard.fence().to_string();
  const json body{{"key", "k"}, {"fence", fence}, {"reason", "a test"}};
  auto other = body;
  other["fence"] = "000000000000999";
  EXPECT_EQ(exchange(post("/api/locks/break", other)).status, 409);
  EXPECT_TRUE(store.locks().is_locked("k"));
  for (const char* missing : {"key", "fence", "reason"}) {
    auto part = body;
    part.erase(missing);
    EXPECT_EQ(exchange(post("/api/locks/break", part)).status, 400) << missing;
  }
  auto forged = body;
  forged["reason"] = "x\nserve: action=nothing";
  EXPECT_EQ(exchange(post("/api/locks/break", forged)).status, 400);
  forged["reason"] = "\\\" peer=\"10.0.0.1:1\" result=done";
  forged["fence"] = "000000000000999";
  EXPECT_EQ(exchange(post("/api/locks/break", forged)).status, 409);
  EXPECT_TRUE(store.locks().is_locked("k"));
  const auto broken = exchange(post("/api/locks/break", body));
  EXPECT_EQ(broken.status, 200) << broken.body;
  EXPECT_EQ(json::parse(broken.body).at("broken").at("fence"), fence);
  EXPECT_FALSE(store.locks().is_locked("k"));
  const auto audit = logged();
  EXPECT_NE(audit.find("action=break_lock key=\"k\" fence=" + fence + " reason=\"a test\" peer=\"127.0.0.1:"),
            std::string::npos)
      << audit;
  EXPECT_NE(audit.find("result=done"), std::string::npos);
  EXPECT_NE(audit.find(R"(reason="\\\" peer=\"10.0.0.1:1\" result=done" peer="127.0.0.1:)"),
            std::string::npos)
      << "a reason cannot forge the other fields: " << audit;
  EXPECT_EQ(std::ranges::count(audit, '\n'), 3) << "one line for each attempt that was valid: " << audit;
}

TEST_F(ServeHttp, ActionsAreOffUnlessAllowed) {
  begin();
  const auto guard = store.locks().lock("k");
  const auto answer = exchange(
      post("/api/locks/break", {{"key", "k"}, {"fence", guard.fence().to_string()}, {"reason", "x"}}));
  EXPECT_EQ(answer.status, 403);
  EXPECT_TRUE(store.locks().is_locked("k"));
}

TEST_F(ServeHttp, ATaskIsCancelledAndRemoved) {
  begin([](auto& settings) { settings.site.access.allow_actions = true; });
  const auto tasks = store.tasks();
  const auto task = tasks.create("alice", {.method = "m"});
  const json body{{"owner", "alice"}, {"id", task.id}, {"reason", "not needed"}};
  auto another = body;
  another["incarnation"] = "another";
  EXPECT_EQ(exchange(post("/api/tasks/cancel", another)).status, 404)
      << "its id, but not the task that was shown";
  EXPECT_EQ(exchange(post("/api/tasks/cancel", body)).status, 200);
  EXPECT_EQ(tasks.get("alice", task.id).status, TaskStatus::cancelled);
  EXPECT_EQ(tasks.get("alice", task.id).status_message, "not needed");
  EXPECT_EQ(exchange(post("/api/tasks/cancel", body)).status, 409);
  EXPECT_EQ(exchange(post("/api/tasks/remove", body)).status, 200);
  EXPECT_EQ(exchange(post("/api/tasks/remove", body)).status, 404);
  EXPECT_EQ(exchange(post("/api/tasks/cancel", body)).status, 404);
  EXPECT_NE(logged().find("action=remove_task owner=\"alice\" id=\"" + task.id), std::string::npos);
}

TEST_F(ServeHttp, DataOfTasksIsHiddenUnlessItIsAskedFor) {
  const auto variables = Json::parse(R"({"password":"secret-variable"})").value_or_throw();
  const auto result = Json::parse(R"("secret-result")").value_or_throw();
  const auto task = store.tasks().create("alice", {.method = "m", .variables = variables});
  (void)store.tasks().complete_with_result("alice", task.id, result);
  const auto path = "/api/task?owner=alice&id=" + task.id;
  begin();
  const auto hidden = exchange(get(path));
  EXPECT_EQ(hidden.status, 200);
  EXPECT_EQ(hidden.body.find("secret"), std::string::npos);
  EXPECT_EQ(exchange(get("/api/tasks")).body.find("secret"), std::string::npos);
  end();
  begin([](auto& settings) { settings.site.show_data = true; });
  const auto shown = json::parse(exchange(get(path)).body);
  EXPECT_EQ(shown.at("variables").at("password"), "secret-variable");
  EXPECT_EQ(shown.at("result"), "secret-result");
  EXPECT_EQ(exchange(get("/api/task?owner=bob&id=" + task.id)).status, 404);
  EXPECT_EQ(exchange(get("/api/task?owner=%zz")).status, 400);
}

TEST_F(ServeHttp, MetricsAreOnePageOfStoreAndProcess) {
  begin();
  const auto guard = store.locks().lock("k");
  const auto answer = exchange(get("/metrics"));
  EXPECT_NE(answer.field("Content-Type").find("version=0.0.4"), std::string::npos);
  const PrometheusPage page(answer.body);
  EXPECT_EQ(page.value("holdfast_store_up{backend=\"memory\"}"), 1);
  EXPECT_TRUE(page.has("holdfast_store_locks{backend=\"memory\"}"));
  EXPECT_EQ(page.value("holdfast_locks_held{backend=\"memory\"}"), 1);
}

TEST_F(ServeHttp, AUnixSocketIsForItsOwnerAndNeedsNoToken) {
  const TempDir directory;
  const auto path = (directory / "serve.sock").string();
  begin([&](auto& settings) {
    settings.site.access.hosts.listen = serve::ListenAddress::parse("unix:" + path).value_or_throw();
    settings.site.access.token_needed = false;
    settings.site.token.clear();
  });
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  for (const auto& [name, expected] : {std::pair{"localhost", 200}, {"evil.example", 421}}) {
    HttpClient client(path);
    client.send(std::string("GET /api/about HTTP/1.1\r\nHost: ") + name + "\r\n\r\n");
    EXPECT_EQ(client.answer().status, expected) << name;
  }
  end();
  EXPECT_NE(stat(path.c_str(), &status), 0) << "it is removed at the end";
}

TEST_F(ServeHttp, TlsIsSpokenWithTheGivenCertificate) {
  const TempDir directory;
  const CertificateAuthority authority(directory.path());
  const auto issued = authority.issue({.name = "server", .names = {"IP:127.0.0.1"}});
  begin([&](auto& settings) {
    settings.site.access.hosts.tls = true;
    settings.certificate_file = issued.certificate.string();
    settings.key_file = issued.key.string();
  });
  HttpClient client(server->address().port);
  ASSERT_TRUE(client.start_tls(authority.file().string()));
  client.send(post("/login", {{"token", token}}, ""));
  const auto login = client.answer();
  EXPECT_EQ(login.status, 204);
  const auto cookie = login.field("Set-Cookie");
  EXPECT_TRUE(cookie.starts_with("__Host-")) << cookie;
  EXPECT_NE(cookie.find("Secure"), std::string::npos);
  HttpClient plain(server->address().port);
  plain.send(get("/healthz", ""));
  EXPECT_EQ(plain.answer().status, 0);
}

TEST_F(ServeHttp, ACertificateThatCannotBeUsedIsRefusedAtTheStart) {
  EXPECT_THROW(begin([](auto& settings) { settings.certificate_file = settings.key_file = "/nowhere.pem"; }),
               Error);
  begin();
  const auto port = server->address().port;
  serve::Server::Settings second;
  second.site.access.hosts.listen.host = "127.0.0.1";
  second.site.access.hosts.listen.port = port;
  EXPECT_THROW(serve::Server(store, second), Error) << "the port is taken";
}

}  // namespace
}  // namespace holdfast::test
