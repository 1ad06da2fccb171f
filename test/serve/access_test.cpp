#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <holdfast/error.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "serve/access/decision.hpp"
#include "serve/access/secrets.hpp"
#include "serve/access/token_file.hpp"
#include "serve/content/assets.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace serve;
using namespace std::chrono_literals;

HostRules on(std::string_view address) {
  HostRules rules;
  rules.listen = ListenAddress::parse(address).value_or_throw();
  return rules;
}

Request request_for(std::string method, std::string path) {
  Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.host = "127.0.0.1:4780";
  if (request.method == "POST") request.content_type = "application/json";
  return request;
}

AccessRules rules_with_actions() {
  AccessRules rules;
  rules.hosts = on("127.0.0.1:4780");
  rules.allow_actions = true;
  return rules;
}

constexpr Credentials no_proof{};
constexpr Credentials by_bearer{.bearer = true};
constexpr Credentials by_session{.session = true};

TEST(ServeListenAddress, IsAnIpAddressWithAPortOrAUnixSocket) {
  EXPECT_EQ(ListenAddress::parse("127.0.0.1:80")->text(), "127.0.0.1:80");
  EXPECT_EQ(ListenAddress::parse("localhost:80")->text(), "127.0.0.1:80");
  EXPECT_EQ(ListenAddress::parse("[::1]:80")->text(), "[::1]:80");
  EXPECT_EQ(ListenAddress::parse("[2001:DB8:0:0::1]:80")->text(), "[2001:db8::1]:80");
  EXPECT_TRUE(ListenAddress::parse("[0::0]:80")->is_wildcard());
  EXPECT_EQ(ListenAddress::parse("unix:/run/x")->path, "/run/x");
  for (const char* wrong : {"", "4780", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80",
                            "example.com:80", "unix:", "[]:80", "127.0.0.1:-1"}) {
    EXPECT_FALSE(ListenAddress::parse(wrong)) << wrong;
  }
}

TEST(ServeListenAddress, OnlyLoopbackAndUnixSocketsStayInTheMachine) {
  for (const char* inside : {"127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "unix:x"}) {
    EXPECT_TRUE(ListenAddress::parse(inside)->is_loopback()) << inside;
  }
  for (const char* beyond : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1"}) {
    EXPECT_FALSE(ListenAddress::parse(beyond)->is_loopback()) << beyond;
  }
}

TEST(ServeHost, OfALoopbackServerIsALoopbackAddressOrLocalhostWithItsPort) {
  const auto rules = on("127.0.0.1:4780");
  for (const char* own : {"127.0.0.1:4780", "localhost:4780", "LOCALHOST:4780", "[::1]:4780"}) {
    EXPECT_TRUE(rules.allows_host(own)) << own;
  }
  for (const char* foreign :
       {"127.0.0.1", "127.0.0.1:4781", "evil.example:4780", "localhost.evil.example:4780", "", ":4780",
        "10.0.0.1:4780", "[::1", "[::1]x:4780", "127.0.0.1.evil.example:4780"}) {
    EXPECT_FALSE(rules.allows_host(foreign)) << foreign;
  }
}

TEST(ServeHost, AnAddressIsTheSameInEachOfItsForms) {
  auto rules = on("[2001:DB8:0::1]:4780");
  for (const char* own : {"[2001:db8::1]:4780", "[2001:DB8:0::1]:4780", "[2001:db8:0:0:0:0:0:1]:4780"}) {
    EXPECT_TRUE(rules.allows_host(own)) << own;
  }
  EXPECT_FALSE(rules.allows_host("[2001:db8::2]:4780"));
  rules.names = {"[2001:DB8::3]:4780"};
  EXPECT_TRUE(rules.allows_host("[2001:db8::3]:4780"));
}

TEST(ServeHost, ANameOfTheNetworkMustBeGiven) {
  auto rules = on("0.0.0.0:4780");
  EXPECT_TRUE(rules.allows_host("10.1.2.3:4780")) << "an address cannot be rebound";
  EXPECT_FALSE(rules.allows_host("ops.example.com:4780"));
  rules.names = {"ops.example.com", "other.example.com:8443"};
  EXPECT_TRUE(rules.allows_host("ops.example.com:4780"));
  EXPECT_TRUE(rules.allows_host("ops.example.com"));
  EXPECT_TRUE(rules.allows_host("other.example.com:8443"));
  EXPECT_FALSE(rules.allows_host("other.example.com:4780"));
}

TEST(ServeHost, APageIsOurOwnIfItsOriginIsTheHostOfTheRequest) {
  auto rules = on("127.0.0.1:4780");
  EXPECT_TRUE(rules.is_same_origin("http://127.0.0.1:4780", "127.0.0.1:4780"));
  for (const char* foreign : {"null", "", "http://localhost:4780", "https://127.0.0.1:4780",
                              "http://127.0.0.1:4780.evil", "http://127.0.0.1:4781", "http://evil.example"}) {
    EXPECT_FALSE(rules.is_same_origin(foreign, "127.0.0.1:4780")) << foreign;
  }
  rules.tls = true;
  EXPECT_TRUE(rules.is_same_origin("https://127.0.0.1:4780", "127.0.0.1:4780"));
  EXPECT_FALSE(rules.is_same_origin("http://127.0.0.1:4780", "127.0.0.1:4780"));
}

TEST(ServeAccess, WithoutATokenOnlyHealthAndTheLoginAreOpen) {
  const auto rules = rules_with_actions();
  std::set<std::string> open;
  for (const auto& route : routes()) {
    const auto decision =
        decide(request_for(std::string(route.method), std::string(route.path)), no_proof, rules);
    if (decision.route != nullptr) {
      open.insert(std::string(route.path));
      EXPECT_FALSE(decision.authorised);
    } else {
      EXPECT_EQ(decision.status, 401) << route.path;
    }
  }
  EXPECT_EQ(open, (std::set<std::string>{"/", "/healthz", "/login", "/logout", "/assets/style.css",
                                         "/assets/icon.svg", "/assets/login.js"}));
}

TEST(ServeAccess, AWrongTokenIsNotCalledAMissingOne) {
  auto request = request_for("GET", "/api/locks");
  EXPECT_NE(decide(request, no_proof, rules_with_actions()).reason.find("log in, or send"),
            std::string::npos);
  request.authorization = "Bearer wrong";
  const auto decision = decide(request, no_proof, rules_with_actions());
  EXPECT_EQ(decision.status, 401);
  EXPECT_EQ(decision.reason, "the token is wrong; send the one in the file of --token-file");
}

TEST(ServeAccess, TheTokenOpensEverything) {
  for (const auto& route : routes()) {
    const auto decision = decide(request_for(std::string(route.method), std::string(route.path)), by_bearer,
                                 rules_with_actions());
    ASSERT_NE(decision.route, nullptr) << route.path;
    EXPECT_EQ(decision.route->endpoint, route.endpoint);
    EXPECT_TRUE(decision.authorised);
  }
}

TEST(ServeAccess, AUnixSocketNeedsNoToken) {
  AccessRules rules;
  rules.hosts = on("unix:/run/x");
  rules.token_needed = false;
  auto request = request_for("GET", "/api/locks");
  request.host = "localhost";
  EXPECT_NE(decide(request, no_proof, rules).route, nullptr);
}

TEST(ServeAccess, AForeignHostIsRefusedWhateverItPresents) {
  auto request = request_for("GET", "/api/locks");
  request.host = "evil.example:4780";
  EXPECT_EQ(decide(request, by_bearer, rules_with_actions()).status, 421);
  request.host.reset();
  EXPECT_EQ(decide(request, by_bearer, rules_with_actions()).status, 400);
  request.path = "/healthz";
  request.host = "10.2.3.4:4780";
  EXPECT_NE(decide(request, no_proof, rules_with_actions()).route, nullptr) << "of a probe";
}

TEST(ServeAccess, FieldsThatComeTwiceAreRefused) {
  auto request = request_for("GET", "/api/locks");
  request.ambiguous = true;
  EXPECT_EQ(decide(request, by_bearer, rules_with_actions()).status, 400);
}

TEST(ServeAccess, PagesOfOtherSitesAreRefused) {
  for (const auto& route : routes()) {
    auto request = request_for(std::string(route.method), std::string(route.path));
    request.origin = "http://evil.example";
    EXPECT_EQ(decide(request, by_session, rules_with_actions()).status, 403) << route.path;
    request.origin.reset();
    request.fetch_site = "cross-site";
    const auto decision = decide(request, by_session, rules_with_actions());
    EXPECT_EQ(decision.route != nullptr, route.path == "/" || route.path == "/healthz") << route.path;
    request.fetch_site = "same-site";  // another port of this host
    EXPECT_EQ(decide(request, by_session, rules_with_actions()).route != nullptr,
              route.path == "/" || route.path == "/healthz")
        << route.path;
  }
}

TEST(ServeAccess, AChangeByASessionNeedsItsOrigin) {
  auto request = request_for("POST", "/api/locks/break");
  EXPECT_EQ(decide(request, by_session, rules_with_actions()).status, 403);
  request.origin = "http://127.0.0.1:4780";
  EXPECT_NE(decide(request, by_session, rules_with_actions()).route, nullptr);
}

TEST(ServeAccess, AChangeNeedsJsonWhichNoFormCanSend) {
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""}) {
    auto request = request_for("POST", "/api/locks/break");
    request.content_type = type;
    EXPECT_EQ(decide(request, by_bearer, rules_with_actions()).status, 415) << type;
  }
  auto request = request_for("POST", "/api/locks/break");
  request.content_type = "application/json; charset=utf-8";
  EXPECT_NE(decide(request, by_bearer, rules_with_actions()).route, nullptr);
}

TEST(ServeAccess, ActionsMustBeAllowed) {
  auto rules = rules_with_actions();
  rules.allow_actions = false;
  for (const auto& route : routes()) {
    if (route.need != Need::action) continue;
    const auto decision = decide(request_for("POST", std::string(route.path)), by_bearer, rules);
    EXPECT_EQ(decision.status, 403) << route.path;
    EXPECT_EQ(decision.code, "ActionsNotAllowed");
  }
}

TEST(ServeAccess, OtherMethodsAndPathsAreRefused) {
  EXPECT_EQ(decide(request_for("GET", "/nope"), by_bearer, rules_with_actions()).status, 404);
  const auto decision = decide(request_for("DELETE", "/api/locks"), by_bearer, rules_with_actions());
  EXPECT_EQ(decision.status, 405);
  EXPECT_EQ(decision.allow, "GET, HEAD");
}

TEST(ServeAccess, ABearerIsWhatFollowsItsScheme) {
  for (const char* field : {"Bearer abc", "bearer abc", "BEARER abc"}) EXPECT_EQ(bearer_in(field), "abc");
  EXPECT_EQ(bearer_in("Bearer"), "");
  EXPECT_EQ(bearer_in("Basic abc"), "");
  EXPECT_EQ(bearer_in(""), "");
}

TEST(ServeOpenApi, DescribesTheRoutesAndWhatTheyNeed) {
  const auto document = nlohmann::json::parse(openapi_json);
  std::set<std::string> described;
  for (const auto& [path, operations] : document.at("paths").items()) {
    for (const auto& [method, operation] : operations.items()) {
      described.insert(method + " " + path);
      EXPECT_TRUE(operation.contains("summary")) << path;
    }
  }
  std::set<std::string> real;
  for (const auto& route : routes()) {
    std::string method(route.method);
    for (char& letter : method) letter = static_cast<char>(std::tolower(letter));
    real.insert(method + " " + std::string(route.path));
    const auto path = nlohmann::json::json_pointer("/paths") / std::string(route.path) / method;
    ASSERT_TRUE(document.contains(path)) << route.path;
    const bool open = document.at(path).contains("security");  // an empty list: the default is the token
    EXPECT_EQ(open, route.need != Need::token && route.need != Need::action) << route.path;
  }
  EXPECT_EQ(described, real);
}

TEST(ServeSessions, AreKnownByTheirIdUntilTheyEnd) {
  Sessions sessions;
  const Sessions::Clock::time_point now{};
  const auto first = new_secret();
  const auto second = new_secret();
  EXPECT_NE(first, second);
  EXPECT_EQ(first.size(), 64U);
  sessions.add(first, now);
  EXPECT_TRUE(sessions.contains(first, now + Sessions::lifetime - 1ms));
  EXPECT_FALSE(sessions.contains(second, now));
  EXPECT_FALSE(sessions.contains("", now));
  sessions.remove(second);
  EXPECT_TRUE(sessions.contains(first, now));
  sessions.remove(first);
  EXPECT_FALSE(sessions.contains(first, now));
  sessions.add(second, now);
  EXPECT_FALSE(sessions.contains(second, now + Sessions::lifetime));
}

TEST(ServeSessions, AreLimited) {
  Sessions sessions;
  const Sessions::Clock::time_point now{};
  sessions.add("first", now);
  for (std::size_t i = 0; i < Sessions::limit; ++i) sessions.add("session " + std::to_string(i), now);
  EXPECT_FALSE(sessions.contains("first", now));
  EXPECT_TRUE(sessions.contains("session 0", now));
}

TEST(ServeSecrets, AreComparedAsAWhole) {
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd"}) EXPECT_FALSE(equal_secrets("abc", other)) << other;
}

TEST(ServeTokenFile, IsCreatedOnceForItsOwnerOnly) {
  const TempDir directory;
  const auto file = directory / "token";
  const auto created = read_or_create_token(file);
  EXPECT_TRUE(created.created);
  struct stat status{};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const auto read = read_or_create_token(file);
  EXPECT_FALSE(read.created);
  EXPECT_EQ(read.text, created.text);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1)
      << "no temporary file is left";
}

TEST(ServeTokenFile, OfAnotherUserIsRefused) {
  // In /tmp, anybody can create the file before the server does, and would know its token.
  struct stat status{};
  status.st_mode = S_IFREG | 0600U;
  status.st_uid = 1000;
  EXPECT_EQ(problem_of_token_file(status, 1000), "");
  EXPECT_NE(problem_of_token_file(status, 1001), "");
  EXPECT_NE(problem_of_token_file(status, 0), "") << "root could read it all the same";
  status.st_uid = 0;
  EXPECT_EQ(problem_of_token_file(status, 1000), "") << "root wrote it for a service";
  status.st_mode = S_IFIFO | 0600U;
  EXPECT_NE(problem_of_token_file(status, 0), "");
}

TEST(ServeTokenFile, ThatOthersCanReadOrThatIsTooShortIsRefused) {
  const TempDir directory;
  const auto file = directory / "token";
  std::ofstream(file) << std::string(32, 'x') << "\n";
  std::filesystem::permissions(file, static_cast<std::filesystem::perms>(0644));
  EXPECT_THROW((void)read_or_create_token(file), Error);
  std::filesystem::permissions(file, static_cast<std::filesystem::perms>(0640));
  EXPECT_EQ(read_or_create_token(file).text, std::string(32, 'x')) << "a group is chosen by the owner";
  for (const auto& wrong :
       {std::string(31, 'x'), std::string("short"), std::string(40, ' '), std::string()}) {
    std::ofstream(file, std::ios::trunc) << wrong << "\n";
    EXPECT_THROW((void)read_or_create_token(file), Error) << wrong;
  }
  EXPECT_THROW((void)read_or_create_token(directory / "no" / "token"), Error);
}

}  // namespace
}  // namespace holdfast::test
