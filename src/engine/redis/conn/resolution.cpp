#include "engine/redis/conn/resolution.hpp"

#include <mutex>
#include <optional>

#include "os/errno_error.hpp"
#include "os/event.hpp"
#include "os/thread.hpp"

namespace holdfast::redis {

struct Resolution::State {
  os::Event ended;
  std::mutex mutex;
  std::optional<Result<std::vector<Address>>> answer;
};

Result<Resolution> Resolution::start(const std::string& host, std::uint16_t port) {
  try {
    auto state = std::make_shared<State>();
    os::start_thread([state, host, port] {
      auto answer = resolve(host, port, false);
      {
        const std::lock_guard lock(state->mutex);
        state->answer.emplace(std::move(answer));
      }
      state->ended.set();
    }).detach();
    return Resolution(std::move(state));
  } catch (const std::system_error& failed) {
    return Error(ErrorCode::ServiceUnavailable, "no thread to resolve the host name", failed.what());
  }
}

int Resolution::descriptor() const noexcept {
  return state_->ended.descriptor();
}

bool Resolution::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->answer.has_value();
}

Result<std::vector<Address>> Resolution::take() {
  const std::lock_guard lock(state_->mutex);
  return *std::move(state_->answer);
}

}  // namespace holdfast::redis
