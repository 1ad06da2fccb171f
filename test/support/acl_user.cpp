#include "support/acl_user.hpp"

namespace holdfast::test {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

RedisOptions acl_user(const RedisServer& server, RedisOptions options,
                      const std::vector<std::string>& more_rules) {
  options.user = "app";
  options.password = "sesame";
  auto raw = server.raw();
  raw.text({"ACL", "DELUSER", options.user});
  raw.text(words_of(redis_acl(options).value_or_throw().line()));
  std::vector<std::string> command{"ACL", "SETUSER", options.user, "on", ">" + options.password};
  command.insert(command.end(), more_rules.begin(), more_rules.end());
  raw.text(command);
  return options;
}

std::string acl_refusals(const RedisServer& server) {
  return server.raw().text({"ACL", "LOG"});
}

}  // namespace holdfast::test
