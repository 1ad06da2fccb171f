#pragma once

#include <string>

#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {

/// Where one test keeps its locks and tasks: in memory, in a file of its own, or under a prefix of its own in
/// the shared Redis, if there is one (redis_missing).
class OwnStore {
 public:
  explicit OwnStore(const std::string& engine) : url_("memory:") {
    if (engine == "redis") {
      const auto prefix = private_prefix();
      const auto shared = shared_redis_url();
      url_ = shared + (shared.find('?') == std::string::npos ? "?" : "&") + "lock_prefix=" + prefix +
             "&task_prefix=" + prefix;
    } else if (engine == "sqlite") {
      url_ = "sqlite:" + file().string();
    }
  }
  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  [[nodiscard]] std::filesystem::path file() const { return directory_.path() / "store.db"; }

 private:
  TempDir directory_;
  std::string url_;
};

}  // namespace holdfast::test
