#include <holdfast/job.hpp>
#include <tuple>

#include "os/process.hpp"
#include "queue/claimed_job.hpp"
#include "tasks/address.hpp"

namespace holdfast {

using runtime::Flow;
using runtime::Op;

Job::Job() noexcept = default;
Job::Job(std::shared_ptr<ClaimedJob> claimed) noexcept : claimed_(std::move(claimed)) {}
Job::Job(Job&& other) noexcept = default;

Job& Job::operator=(Job&& other) noexcept {
  if (this != &other) {
    const Job old(std::move(claimed_));
    claimed_ = std::move(other.claimed_);
  }
  return *this;
}

Job::~Job() {
  if (!claimed_) return;
  if (claimed_->in_own_process()) {
    claimed_->dispose();
  } else {
    // In a forked child the job belongs to the parent, and any mutex may be locked: leak it untouched.
    new std::shared_ptr<ClaimedJob>(std::move(claimed_));
  }
}

void Job::give_back_in_background() noexcept {
  const Job last(std::move(*this));
}

Job::operator bool() const noexcept {
  return claimed_ != nullptr && (!claimed_->in_own_process() || claimed_->is_held());
}

std::optional<Error> Job::unusable() const {
  if (!claimed_) return Error(ErrorCode::InvalidArgument, "this job is empty: it was moved from");
  if (!claimed_->in_own_process()) return os::used_after_fork();
  return std::nullopt;
}

const std::shared_ptr<ClaimedJob>& Job::claimed() const {
  if (const auto why = unusable()) throw *why;
  return claimed_;
}

Task Job::task() const {
  return claimed()->task();
}
std::string Job::id() const {
  return claimed()->id();
}
std::string Job::queue() const {
  return tasks::queue_stored_as(claimed()->owner()).value_or("");
}
std::uint32_t Job::attempt() const {
  return claimed()->attempt();
}
Fence Job::fence() const {
  return claimed()->token().fence;
}
FencingToken Job::token() const {
  return claimed()->token();
}
std::chrono::nanoseconds Job::remaining() const {
  return claimed()->remaining();
}
std::stop_token Job::stopped() const noexcept {
  return claimed_ ? claimed_->stopped() : std::stop_token();
}
bool Job::cancelled() const {
  return claimed()->cancelled();
}
bool Job::gone() const {
  return claimed()->gone();
}
std::optional<LossReason> Job::loss_reason() const {
  return claimed()->loss_reason();
}
bool Job::at_risk() const {
  return claimed()->at_risk();
}
void Job::on_at_risk(std::function<void(bool)> callback) {
  claimed()->on_at_risk(std::move(callback));
}

template <class Operation>
typename Operation::Answer Job::run(Operation operation, std::stop_token stop) {
  return tasks::run(ClaimedJob::perform(Flow::blocking(), claimed(), std::move(operation), std::move(stop)));
}

template <class Operation>
void Job::start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) {
  if (auto why = unusable()) return done(*std::move(why));
  auto flow = claimed_->store()->tasks->completing();
  Op<typename Operation::Answer>::start(
      ClaimedJob::perform(std::move(flow), claimed_, std::move(operation), std::move(stop)), std::move(done));
}

/// Makes the compiler emit both forms of each operation.
template <class... Operations>
struct JobOperations {
  static constexpr auto forms = std::tuple{&Job::run<Operations>..., &Job::start<Operations>...};
};
template struct JobOperations<operation::EndJob, operation::EndJobAndClaim, operation::SetJobVariables>;

void Job::wait_stopped(std::stop_token stop, Done<Ok> done) const {
  if (auto why = unusable()) return done(*std::move(why));
  Op<Ok>::start(claimed_->wait_stopped(std::move(stop)), std::move(done));
}

}  // namespace holdfast
