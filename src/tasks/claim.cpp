#include <holdfast/claim.hpp>

#include "os/process.hpp"
#include "tasks/claimed_task.hpp"
#include "tasks/operations.hpp"

namespace holdfast {
namespace {

using detail::owned;
using runtime::Flow;
using runtime::Op;
using tasks::Call;
using Self = ClaimedTask::Self;
using Write = ClaimedTask::Write;

Flow completing(const Self& claimed) {
  return claimed->store()->completing();
}

/// Ends the claim if the status is final.
Op<Task> to_status(Flow flow, Self claimed, TaskStatus status, std::optional<std::string> message,
                   std::stop_token stop) {
  Write write = [status, message = std::move(message)](Call call, Task at) {
    return perform(std::move(call),
                   operation::UpdateTaskStatus{std::move(at.owner), std::move(at.id), status, message});
  };
  return is_final(status)
             ? ClaimedTask::end(std::move(flow), std::move(claimed), std::move(write), std::move(stop))
             : ClaimedTask::write(std::move(flow), std::move(claimed), std::move(write), std::move(stop));
}

Op<Task> with_variables(Flow flow, Self claimed, Json changes, std::stop_token stop) {
  Write write = [changes = std::move(changes)](Call call, Task at) {
    return perform(std::move(call),
                   operation::SetTaskVariables{std::move(at.owner), std::move(at.id), changes});
  };
  return ClaimedTask::write(std::move(flow), std::move(claimed), std::move(write), std::move(stop));
}

Op<Task> with_result(Flow flow, Self claimed, TaskStatus status, Json result,
                     std::optional<std::string> message, std::stop_token stop) {
  Write write = [status, result = std::move(result), message = std::move(message)](Call call, Task at) {
    return perform(std::move(call),
                   operation::EndTask{std::move(at.owner), std::move(at.id), status, result, message});
  };
  return ClaimedTask::end(std::move(flow), std::move(claimed), std::move(write), std::move(stop));
}

}  // namespace

Claim::Claim() noexcept = default;
Claim::Claim(std::shared_ptr<ClaimedTask> claimed) noexcept : claimed_(std::move(claimed)) {}
Claim::Claim(Claim&& other) noexcept = default;

Claim& Claim::operator=(Claim&& other) noexcept {
  if (this != &other) {
    const Claim old(std::move(claimed_));
    claimed_ = std::move(other.claimed_);
  }
  return *this;
}

Claim::~Claim() {
  if (!claimed_) return;
  if (claimed_->in_own_process()) {
    claimed_->dispose();
  } else {
    // In a forked child the claim belongs to the parent, and any mutex may be locked: leak it untouched.
    new std::shared_ptr<ClaimedTask>(std::move(claimed_));
  }
}

void Claim::release_in_background() noexcept {
  // In a forked child the destructor handles it.
  if (!claimed_ || !claimed_->in_own_process()) return;
  const auto last = std::move(claimed_);
  last->dispose_in_background();
}

Claim::operator bool() const noexcept {
  return claimed_ != nullptr && (!claimed_->in_own_process() || claimed_->is_held());
}

std::optional<Error> Claim::unusable() const {
  if (!claimed_) return Error(ErrorCode::InvalidArgument, "this claim is empty: it was moved from");
  if (!claimed_->in_own_process()) return os::used_after_fork();
  return std::nullopt;
}

const std::shared_ptr<ClaimedTask>& Claim::claimed() const {
  if (const auto why = unusable()) throw *why;
  return claimed_;
}

Task Claim::task() const {
  return claimed()->task();
}
Fence Claim::fence() const {
  return claimed()->token().fence;
}
FencingToken Claim::token() const {
  return claimed()->token();
}
std::stop_token Claim::stopped() const noexcept {
  return claimed_ ? claimed_->stopped() : std::stop_token();
}
bool Claim::cancelled() const {
  return claimed()->cancelled();
}
bool Claim::gone() const {
  return claimed()->gone();
}
Guard& Claim::guard() {
  return claimed()->guard();
}

Task Claim::update_status(TaskStatus status, std::optional<std::string_view> message, std::stop_token stop) {
  return tasks::run(to_status(Flow::blocking(), claimed(), status, owned(message), std::move(stop)));
}
void Claim::update_status(TaskStatus status, std::optional<std::string_view> message, std::stop_token stop,
                          Done<Task> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Task>::start(to_status(completing(claimed_), claimed_, status, owned(message), std::move(stop)),
                  std::move(done));
}

Task Claim::set_variables(JsonView changes, std::stop_token stop) {
  return tasks::run(with_variables(Flow::blocking(), claimed(), owned(changes), std::move(stop)));
}
void Claim::set_variables(JsonView changes, std::stop_token stop, Done<Task> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Task>::start(with_variables(completing(claimed_), claimed_, owned(changes), std::move(stop)),
                  std::move(done));
}

Task Claim::complete(JsonView result, std::optional<std::string_view> message, std::stop_token stop) {
  return tasks::run(with_result(Flow::blocking(), claimed(), TaskStatus::completed, owned(result),
                                owned(message), std::move(stop)));
}
void Claim::complete(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                     Done<Task> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Task>::start(with_result(completing(claimed_), claimed_, TaskStatus::completed, owned(result),
                              owned(message), std::move(stop)),
                  std::move(done));
}

Task Claim::fail(std::optional<std::string_view> message, std::stop_token stop) {
  return update_status(TaskStatus::failed, message, std::move(stop));
}
void Claim::fail(std::optional<std::string_view> message, std::stop_token stop, Done<Task> done) {
  update_status(TaskStatus::failed, message, std::move(stop), std::move(done));
}

Task Claim::fail_with_result(JsonView result, std::optional<std::string_view> message, std::stop_token stop) {
  return tasks::run(with_result(Flow::blocking(), claimed(), TaskStatus::failed, owned(result),
                                owned(message), std::move(stop)));
}
void Claim::fail_with_result(JsonView result, std::optional<std::string_view> message, std::stop_token stop,
                             Done<Task> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Task>::start(with_result(completing(claimed_), claimed_, TaskStatus::failed, owned(result),
                              owned(message), std::move(stop)),
                  std::move(done));
}

bool Claim::release(std::stop_token stop) {
  return tasks::run(ClaimedTask::release(Flow::blocking(), claimed(), std::move(stop)));
}
void Claim::release(std::stop_token stop, Done<bool> done) {
  if (auto why = unusable()) return done(*std::move(why));
  Op<bool>::start(ClaimedTask::release(completing(claimed_), claimed_, std::move(stop)), std::move(done));
}

void Claim::wait_stopped(std::stop_token stop, Done<Ok> done) const {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Ok>::start(claimed_->wait_stopped(std::move(stop)), std::move(done));
}

}  // namespace holdfast
