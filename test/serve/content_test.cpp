#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "serve/content/assets.hpp"
#include "serve/content/snapshot_json.hpp"
#include "serve/content/store_metrics.hpp"
#include "serve/http/request_reader.hpp"
#include "serve/http/response.hpp"
#include "support/prometheus_page.hpp"

namespace holdfast::test {
namespace {

using namespace serve;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr WallTime epoch{};
const BootTime boot{100s};

std::shared_ptr<const view::LockRow> lock_row(const std::string& key, const std::string& holder = "web") {
  return std::make_shared<view::LockRow>(
      view::LockRow{.key = key,
                    .holder = holder,
                    .fence = Fence::parse("000000000000007").value_or_throw(),
                    .acquired_at = epoch + 1s,
                    .expires_at = epoch + 31s});
}

std::shared_ptr<const view::TaskRow> task_row(const std::string& id,
                                              TaskStatus status = TaskStatus::working) {
  view::TaskRow row;
  row.owner = "alice";
  row.id = id;
  row.status = status;
  row.progress = 0.25;
  row.lock_key = "task/" + id;
  return std::make_shared<view::TaskRow>(row);
}

view::Snapshot snapshot_of(view::Snapshot::Locks locks, view::Snapshot::Tasks tasks = {}) {
  view::Snapshot snapshot;
  snapshot.engine = "redis";
  snapshot.made_at = boot;
  snapshot.current_since = boot - 1s;
  snapshot.tasks_since = boot - 4s;
  snapshot.engine_time = epoch + 11s;
  snapshot.whole = true;
  snapshot.reachability = view::Reachability::up;
  for (const auto& row : tasks) ++snapshot.tasks_by_status.at(static_cast<std::size_t>(row->status));
  snapshot.locks = std::move(locks);
  snapshot.tasks = std::move(tasks);
  return snapshot;
}

TEST(ServeJson, OfASnapshotHasItsRowsAndTheAgeOfTheData) {
  const auto snapshot = snapshot_of({lock_row("a"), lock_row("b")}, {task_row("1")});
  const auto all = json::parse(whole_json(snapshot, boot + 2s));
  EXPECT_EQ(all.at("locks").size(), 2U);
  EXPECT_EQ(all.at("locks").at(0), (json{{"key", "a"},
                                         {"holder", "web"},
                                         {"fence", "000000000000007"},
                                         {"acquiredAtMs", 1000},
                                         {"expiresAtMs", 31000}}));
  EXPECT_EQ(all.at("tasks").at(0).at("progress"), 0.25);
  EXPECT_EQ(all.at("store").at("ageMs"), 3000);
  EXPECT_EQ(all.at("store").at("nowMs"), 13000);
  EXPECT_EQ(all.at("store").at("tasksByStatus").at("working"), 1);
}

TEST(ServeJson, TextsOfUsersStayTexts) {
  const std::string nasty = "</script><img src=x onerror=alert(1)>\"\\\n\x1b\xe2\x80\xa8";
  const auto all = json::parse(whole_json(snapshot_of({lock_row(nasty, "\xff")}), boot));
  EXPECT_EQ(all.at("locks").at(0).at("key"), nasty);
  EXPECT_EQ(all.at("locks").at(0).at("holder"), "\\xff");
  EXPECT_EQ(whole_json(snapshot_of({lock_row(nasty)}), boot).find('\n'), std::string::npos)
      << "a line break would end the message of an event stream";
}

TEST(ServeJson, ChangesLeadFromOneSnapshotToTheNext) {
  const auto stays = lock_row("b");
  const auto before = snapshot_of({lock_row("a"), stays, lock_row("c")}, {task_row("1"), task_row("2")});
  auto after = snapshot_of({stays, lock_row("c", "other"), lock_row("d")},
                           {task_row("2", TaskStatus::failed), task_row("3")});
  view::Event event;
  event.sequence = 5;
  after.events = std::make_shared<const std::vector<view::Event>>(std::vector{event});
  const auto changes = json::parse(changes_json(before, after, boot));
  EXPECT_EQ(changes.at("locks").at("gone"), json::array({"a"}));
  ASSERT_EQ(changes.at("locks").at("set").size(), 2U);
  EXPECT_EQ(changes.at("locks").at("set").at(0).at("holder"), "other");
  EXPECT_EQ(changes.at("locks").at("set").at(1).at("key"), "d");
  EXPECT_EQ(changes.at("tasks").at("gone"), json::array({json::array({"alice", "1"})}));
  EXPECT_EQ(changes.at("tasks").at("set").size(), 2U);
  EXPECT_EQ(changes.at("events").size(), 1U);
  EXPECT_EQ(json::parse(changes_json(after, after, boot)).at("events").size(), 0U);
}

TEST(ServeOpenApi, NamesEachKindOfEvent) {
  const auto kinds =
      json::parse(openapi_json)["components"]["schemas"]["Event"]["properties"]["kind"]["enum"];
  std::vector<std::string> all;
  for (std::uint8_t kind = 0; to_string(static_cast<view::EventKind>(kind)) != "unknown"; ++kind) {
    all.emplace_back(to_string(static_cast<view::EventKind>(kind)));
  }
  EXPECT_EQ(kinds.get<std::vector<std::string>>(), all);
}

TEST(ServeJson, RowsCanBeFilteredAndLimited) {
  const auto snapshot = snapshot_of({lock_row("Orders:1"), lock_row("orders:2"), lock_row("x", "ORDERS")},
                                    {task_row("1"), task_row("2", TaskStatus::failed)});
  const auto found = json::parse(locks_json(snapshot, {.text = "orders", .limit = 2}, boot));
  EXPECT_EQ(found.at("locks").size(), 2U);
  EXPECT_EQ(found.at("matching"), 3);
  const auto failed = json::parse(tasks_json(snapshot, {.status = TaskStatus::failed}, boot));
  EXPECT_EQ(failed.at("tasks").size(), 1U);
}

TEST(ServeMetrics, AreGaugesOfTheStoreWithoutTextsOfUsers) {
  auto held = std::make_shared<view::LockRow>(*lock_row("secret-key", "secret-holder"));
  held->waiters = 3;
  const auto text = store_metrics(snapshot_of({held, lock_row("b")}, {task_row("secret-id")}),
                                  {.connections = 4, .event_streams = 2}, boot);
  const PrometheusPage page(text);
  EXPECT_EQ(page.value("holdfast_store_up{backend=\"redis\"}"), 1);
  EXPECT_EQ(page.value("holdfast_store_locks{backend=\"redis\"}"), 2);
  EXPECT_EQ(page.value("holdfast_store_tasks{backend=\"redis\",status=\"working\"}"), 1);
  EXPECT_EQ(page.value("holdfast_store_tasks{backend=\"redis\",status=\"failed\"}"), 0);
  EXPECT_EQ(page.value("holdfast_store_waiters{backend=\"redis\"}"), 3);
  EXPECT_EQ(page.value("holdfast_store_oldest_lock_seconds{backend=\"redis\"}"), 10);
  EXPECT_EQ(page.value("holdfast_store_read_age_seconds{backend=\"redis\"}"), 1);
  EXPECT_EQ(page.value("holdfast_store_tasks_read_age_seconds{backend=\"redis\"}"), 4);
  EXPECT_EQ(page.value("holdfast_serve_event_streams{backend=\"redis\"}"), 2);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

view::Snapshot with_queues(view::Snapshot snapshot, std::vector<view::QueueRow> rows) {
  snapshot.queues_since = boot - 2s;
  for (auto& row : rows) snapshot.queues.push_back(std::make_shared<const view::QueueRow>(std::move(row)));
  return snapshot;
}

TEST(ServeJson, QueuesAreCountedAndTheirChangesSent) {
  const auto before = with_queues(snapshot_of({}),
                                  {{.name = "mail", .ready = 1, .parked = 2, .dead = 3}, {.name = "render"}});
  const auto all = json::parse(whole_json(before, boot));
  EXPECT_EQ(all.at("queues").at(0).at("queue"), "mail");
  EXPECT_EQ(all.at("queues").at(0).at("ready"), 1);
  EXPECT_EQ(all.at("queues").at(0).at("parked"), 2);
  EXPECT_EQ(all.at("queues").at(0).at("dead"), 3);
  EXPECT_EQ(all.at("store").at("queues"), 2);
  EXPECT_EQ(all.at("store").at("queuesAgeMs"), 2000);
  auto after = before;
  after.queues.pop_back();
  after.queues.front() = std::make_shared<const view::QueueRow>(view::QueueRow{.name = "mail", .ready = 2});
  const auto changes = json::parse(changes_json(before, after, boot)).at("queues");
  EXPECT_EQ(changes.at("gone"), json::array({"render"}));
  EXPECT_EQ(changes.at("set").size(), 1U);
  EXPECT_EQ(json::parse(queues_json(before, {.text = "REN"}, boot)).at("matching"), 1);
  EXPECT_FALSE(json::parse(whole_json(snapshot_of({}), boot)).at("store").contains("queues"))
      << "not read yet is not none";
}

TEST(ServeMetrics, NameQueuesButNotAnyNumberOfThem) {
  std::vector<view::QueueRow> rows;
  rows.push_back({.name = "a\"b\\c\nd", .ready = 3, .parked = 4, .dead = 5, .oldest_ready = epoch + 1s});
  // Texts that differ only by how they are escaped must not become one series.
  rows.push_back({.name = "a\\nd", .working = 2, .paused = true});
  rows.push_back({.name = "0 due", .delayed = 1, .next_due = epoch + 3s});
  rows.push_back({.name = "0 later", .delayed = 1, .next_due = epoch + 1h});
  for (int i = 0; i < 198; ++i) rows.push_back({.name = "queue " + std::to_string(i)});
  const auto text = store_metrics(with_queues(snapshot_of({}), std::move(rows)), {}, boot);
  const PrometheusPage page(text);
  // As a reader of the page unescapes them.
  const std::string first = "queue=\"a\"b\\c\nd\"}";
  EXPECT_EQ(page.value("holdfast_queue_tasks{backend=\"redis\",place=\"ready\"," + first), 3);
  EXPECT_EQ(page.value("holdfast_queue_oldest_ready_seconds{backend=\"redis\"," + first), 10);
  EXPECT_EQ(page.value("holdfast_queue_tasks{backend=\"redis\",place=\"parked\"," + first), 4);
  EXPECT_EQ(page.value("holdfast_queue_dead_tasks{backend=\"redis\"," + first), 5);
  const std::string oldest = "holdfast_queue_oldest_ready_seconds{backend=\"redis\",queue=\"0 ";
  EXPECT_EQ(page.value(oldest + "due\"}"), 8) << "delayed until a claim finds that it is due";
  EXPECT_EQ(page.value(oldest + "later\"}"), 0);
  EXPECT_EQ(page.value("holdfast_queue_paused{backend=\"redis\",queue=\"a\\nd\"}"), 1);
  EXPECT_EQ(page.value("holdfast_store_queues{backend=\"redis\"}"), 202);
  std::size_t series = 0;
  for (auto at = text.find("holdfast_queue_paused{"); at != std::string::npos;
       at = text.find("holdfast_queue_paused{", at + 1)) {
    ++series;
  }
  EXPECT_EQ(series, 100U);
  EXPECT_EQ(store_metrics(snapshot_of({}), {}, boot).find("holdfast_queue"), std::string::npos);
}

TEST(ServeMetrics, OfAStoreThatWasNotReadSayNothingAboutItsContent) {
  view::Snapshot snapshot;
  snapshot.engine = "sqlite";
  const PrometheusPage page(store_metrics(snapshot, {}, boot));
  EXPECT_EQ(page.value("holdfast_store_up{backend=\"sqlite\"}"), 0);
  EXPECT_FALSE(page.has("holdfast_store_locks{backend=\"sqlite\"}"));
}

TEST(ServePage, LoadsNothingFromElsewhereAndWritesNoMarkup) {
  for (const auto file : {page_html, login_html, style_css, page_js, login_js}) {
    EXPECT_EQ(file.find("http://"), std::string_view::npos);
    EXPECT_EQ(file.find("https://"), std::string_view::npos);
    for (const char* unsafe : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                               "style=\"", "onclick=\"", "javascript:"}) {
      EXPECT_EQ(file.find(unsafe), std::string_view::npos) << unsafe;
    }
  }
}

/// All at once, and byte by byte as a slow client sends it.
void expect_refusal(const std::string& bytes, int status) {
  RequestReader reader;
  std::string unread;
  for (const char byte : bytes) {
    unread += byte;
    unread.erase(0, reader.put(unread));
    if (reader.refusal()) break;
  }
  EXPECT_EQ(reader.refusal().value_or(0), status) << bytes.substr(0, 60);
}

TEST(ServeRequest, IsReadFromPiecesOfAnySize) {
  const std::string bytes =
      "POST /login?a=1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 5\r\nContent-Type: application/json\r\n"
      "Cookie: x=1; name=value\r\nSec-Fetch-Site: none\r\n\r\nhello";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    RequestReader reader;
    std::string unread;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      unread += bytes.substr(at, piece);
      unread.erase(0, reader.put(unread));
    }
    ASSERT_TRUE(reader.complete()) << piece;
    const auto request = reader.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/login");
    EXPECT_EQ(request.query, "a=1");
    EXPECT_EQ(request.host, "h:1");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(request.fetch_site, "none");
    EXPECT_EQ(cookie_in(*request.cookie, "name"), "value");
    EXPECT_TRUE(request.keep_alive);
    EXPECT_FALSE(request.ambiguous);
    EXPECT_FALSE(reader.complete()) << "the next one";
  }
}

TEST(ServeRequest, ThatIsMalformedOrTooLargeIsRefused) {
  expect_refusal("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400);
  expect_refusal("nonsense\r\n\r\n", 400);
  expect_refusal("GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400);
  expect_refusal("GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
  expect_refusal("GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\n\r\n", 431);
  expect_refusal("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", 431);
  expect_refusal("POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", 413);
}

TEST(ServeRequest, BetweenItsChunksIsLimitedToo) {
  const std::string head = "POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string much(20'000, 'x');
  expect_refusal(head + std::string(20'000, '0'), 431);
  expect_refusal(head + "1;a=\"" + much, 431);
  expect_refusal(head + "1\r\nx\r\n0\r\nX: " + much, 431);
  std::string fields;
  while (fields.size() < 20'000) fields += "X: y\r\n";
  expect_refusal(head + "1\r\nx\r\n0\r\n" + fields, 431);
}

TEST(ServeRequest, WithTwoHostsIsAmbiguous) {
  RequestReader reader;
  (void)reader.put("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  ASSERT_TRUE(reader.complete());
  const auto request = reader.take();
  EXPECT_TRUE(request.ambiguous);
  EXPECT_FALSE(request.host);
}

/// As a client that believes to talk to a proxy sends it, and a server must accept it (RFC 9112, 3.2.2).
TEST(ServeRequest, InAbsoluteFormHasThePathOfItsTarget) {
  const auto request_of = [](const std::string& target, const std::string& host) {
    RequestReader reader;
    const std::string sent = "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    reader.put(sent);
    EXPECT_TRUE(reader.complete()) << target;
    return reader.take();
  };
  for (const auto& [target, path, query] : std::vector<std::array<std::string, 3>>{
           {"http://127.0.0.1:4780/metrics", "/metrics", ""},
           {"HTTP://127.0.0.1:4780/api/locks?filter=http://x", "/api/locks", "filter=http://x"},
           {"https://127.0.0.1:4780", "/", ""},
           {"http://127.0.0.1:4780?x=1", "/", "x=1"},
           {"/http://127.0.0.1:4780/metrics", "/http://127.0.0.1:4780/metrics", ""}}) {
    const auto request = request_of(target, "127.0.0.1:4780");
    EXPECT_EQ(request.path, path) << target;
    EXPECT_EQ(request.query, query) << target;
    EXPECT_EQ(request.host, "127.0.0.1:4780") << target;
    EXPECT_FALSE(request.ambiguous) << target;
  }
  EXPECT_FALSE(request_of("http://LOCALHOST:4780/", "localhost:4780").ambiguous);
  // The name that was judged must be the only one: neither the target nor the field may hide another.
  for (const char* target : {"http://evil.example/metrics", "http://evil.example", "http:///metrics",
                             "http://user@127.0.0.1:4780/metrics", "http://127.0.0.1:4781/metrics",
                             "http://127.0.0.1:4780.evil.example/metrics"}) {
    EXPECT_TRUE(request_of(target, "127.0.0.1:4780").ambiguous) << target;
  }
  EXPECT_EQ(request_of("ftp://127.0.0.1:4780/metrics", "127.0.0.1:4780").path,
            "ftp://127.0.0.1:4780/metrics");
}

TEST(ServeRequest, ParametersAreDecoded) {
  const auto parameters = parse_parameters("owner=a%20b+c&id=%2F%C3%A4&&flag");
  ASSERT_TRUE(parameters);
  EXPECT_EQ(*parameters, (std::vector<std::pair<std::string, std::string>>{
                             {"owner", "a b c"}, {"id", "/\xc3\xa4"}, {"flag", ""}}));
  for (const char* wrong : {"a=%", "a=%4", "a=%zz"}) EXPECT_FALSE(parse_parameters(wrong)) << wrong;
}

TEST(ServeMetrics, DoNotCallAStoreUpThatHasNotAnsweredLately) {
  const auto up_at = [](BootTime now) {
    return PrometheusPage(store_metrics(snapshot_of({}), {}, now))
        .value("holdfast_store_up{backend=\"redis\"}");
  };
  EXPECT_EQ(up_at(boot + 5s), 1);
  EXPECT_EQ(up_at(boot + 6s), 0);
}

TEST(ServeMetrics, HaveNoTasksThatTheUserOfTheStoreMayNotRead) {
  auto snapshot = snapshot_of({lock_row("a")});
  snapshot.tasks_refused = true;
  const auto text = store_metrics(snapshot, {}, boot);
  EXPECT_NE(text.find("holdfast_store_locks{"), std::string::npos) << text;
  EXPECT_EQ(text.find("holdfast_store_tasks"), std::string::npos) << text;
  EXPECT_EQ(json::parse(tasks_json(snapshot, {}, boot)).at("store").at("tasksRefused"), true);
}

TEST(ServeResponse, ProtectsTheBrowser) {
  const auto head = head_of({.body = "{}"}, true);
  for (const char* field : {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "nosniff",
                            "no-store", "no-referrer", "Content-Length: 2"}) {
    EXPECT_NE(head.find(field), std::string::npos) << field;
  }
  EXPECT_EQ(head.find("unsafe-inline"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
