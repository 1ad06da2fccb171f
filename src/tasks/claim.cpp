#include <holdfast/claim.hpp>

#include "tasks/claimed_task.hpp"

namespace holdfast {

Claim::Claim() noexcept = default;
Claim::Claim(std::unique_ptr<ClaimedTask> claimed) noexcept : claimed_(std::move(claimed)) {}
Claim::Claim(Claim&& other) noexcept = default;
Claim& Claim::operator=(Claim&& other) noexcept = default;
Claim::~Claim() = default;

ClaimedTask& Claim::claimed() const {
  if (!claimed_) throw Error(ErrorCode::InvalidArgument, "this claim is empty: it was moved from");
  return *claimed_;
}

Task Claim::task() const {
  return claimed().task();
}
FencingToken Claim::fence() const {
  return claimed().fence();
}
std::stop_token Claim::stopped() const noexcept {
  return claimed_ ? claimed_->stopped() : std::stop_token();
}
bool Claim::cancelled() const {
  return claimed().cancelled();
}
Guard& Claim::guard() {
  return claimed().guard();
}

Task Claim::update_status(TaskStatus status, std::optional<std::string> message) {
  const auto at = task();
  const auto change = [&](Tasks& tasks) {
    return tasks.update_status(at.owner, at.id, status, std::move(message));
  };
  return is_final(status) ? claimed().end(change) : claimed().write(change);
}

Task Claim::set_variables(const Json& changes) {
  const auto at = task();
  return claimed().write([&](Tasks& tasks) { return tasks.set_variables(at.owner, at.id, changes); });
}

Task Claim::complete(const Json& result, std::optional<std::string> message) {
  const auto at = task();
  return claimed().end(
      [&](Tasks& tasks) { return tasks.complete_with_result(at.owner, at.id, result, std::move(message)); });
}

Task Claim::fail(std::optional<std::string> message) {
  return update_status(TaskStatus::failed, std::move(message));
}

Task Claim::fail_with_result(const Json& result, std::optional<std::string> message) {
  const auto at = task();
  return claimed().end(
      [&](Tasks& tasks) { return tasks.fail_with_result(at.owner, at.id, result, std::move(message)); });
}

bool Claim::release() {
  return claimed().release();
}

}  // namespace holdfast
