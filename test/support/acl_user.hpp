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

/// A user of the server who may do what these rules say, added to what RedisAcl::line says for the options,
/// or taken away from it (`-get`); and the options to connect as that user.
[[nodiscard]] RedisOptions acl_user(const RedisServer& server, RedisOptions options,
                                    const std::vector<std::string>& more_rules = {});

/// What the server refused to users for want of a right, since it started.
[[nodiscard]] std::string acl_refusals(const RedisServer& server);

}  // namespace holdfast::test
