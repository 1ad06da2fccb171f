#pragma once

#include <holdfast/doctor.hpp>
#include <holdfast/redis.hpp>
#include <string>
#include <vector>

#include "support/redis_server.hpp"

namespace holdfast::test {

/// The words of a line, as redis-cli and a shell read it: in single quotes all characters stand for
/// themselves.
[[nodiscard]] std::vector<std::string> words_of(const std::string& line);

/// Creates a user of the server with the rights of RedisAcl::line for the options, plus or minus (`-get`)
/// these rules. Returns the options to connect as that user.
[[nodiscard]] RedisOptions acl_user(const RedisServer& server, RedisOptions options,
                                    const std::vector<std::string>& more_rules = {});

/// The commands that the server refused for missing rights since it started.
[[nodiscard]] std::string acl_refusals(const RedisServer& server);

}  // namespace holdfast::test
