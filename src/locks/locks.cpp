#include <holdfast/locks.hpp>

#include <algorithm>
#include <holdfast/printable.hpp>
#include <tuple>

#include "core/utf8.hpp"
#include "locks/acquire_loop.hpp"
#include "locks/held_lock.hpp"
#include "locks/lock_store.hpp"
#include "locks/operations.hpp"
#include "locks/wait_for_lock.hpp"

namespace holdfast {
namespace locks {
namespace {

LockId checked_id(std::string_view id) {
  return LockId::parse(id).value_or_throw();
}

/// Wraps one engine operation as an Op.
template <class Request>
Op<typename Request::Outcome> ask(Flow flow, Store store, Request request, std::stop_token stop) {
  co_return co_await flow.ask(store->backend, std::move(request), std::move(stop));
}

Guard guarded(const Store& store, HeldLock::Grant&& grant, const LockOptions& options) {
  return LockStore::guard(HeldLock::start(store, std::move(grant), options));
}

}  // namespace

Op<std::optional<Guard>> perform(Flow flow, Store store, operation::TryLock what, std::stop_token stop) {
  const LockOptions options = what.options;
  const auto policy = AcquirePolicy::once(options).value_or_throw();
  WantedLock wanted{.key = std::move(what.key).value_or_throw(),
                    .durability = Durability::process,
                    .min_replicas = options.min_replicas,
                    .holder = store->label(options.holder)};
  auto waiting = wait_for_lock(flow, store, std::move(wanted), policy, std::move(stop));
  auto grant = co_await std::move(waiting);
  if (!grant && grant.error().code() == ErrorCode::AcquisitionTimeout) co_return std::nullopt;
  co_return std::optional(guarded(store, std::move(grant).value_or_throw(), options));
}

Op<std::optional<Guard>> perform(Flow flow, Store store, operation::Adopt what, std::stop_token stop) {
  LockOptions options = what.options;
  (void)Ttl::of(options.ttl).value_or_throw();
  const auto& lease = what.lease;
  options.ttl = lease.ttl;  // what the notice is a part of
  const auto ttl = AcquirePolicy::from(options).value_or_throw().ttl;
  auto holder = store->label(options.holder);
  const auto key = LockKey::parse(lease.key).value_or_throw();
  auto context = runtime::CallersContext::of(store->observer.get()).context;
  const BootTime sent = BootClock::now();
  ExtendRequest request{.lock = {.id = lease.id, .key = key},
                        .ttl = ttl,
                        .durability = Durability::process,
                        .min_replicas = options.min_replicas,
                        .new_holder = holder};
  auto extending = ask(flow, store, std::move(request), std::move(stop));
  const auto answer = (co_await std::move(extending)).value_or_throw();
  const auto* extended = std::get_if<Extended>(&answer);
  if (extended == nullptr) co_return std::nullopt;
  auto authority = lease.authority.empty() ? store->backend->authority() : lease.authority;
  if (lease.authority.empty() && store->capabilities.authority_per_key) {
    auto looking = ask(flow, store, LookupRequest{.what = key}, std::stop_token());
    const auto record = (co_await std::move(looking)).value_or_throw();
    if (!record || record->id != lease.id) co_return std::nullopt;
    authority = record->authority;
  }
  HeldLock::Grant grant{.key = key,
                        .id = lease.id,
                        .fence = lease.fence,
                        .authority = std::move(authority),
                        .expires_at = extended->expires_at,
                        .ttl = ttl,
                        .sent = sent,
                        .acquire_may_be_repeated = lease.acquire_may_be_repeated,
                        .context = std::move(context),
                        .holder = std::move(holder),
                        .adopted = true};
  co_return std::optional(guarded(store, std::move(grant), options));
}

Op<Lease> perform(Flow flow, Store store, operation::Acquire what, std::stop_token stop) {
  const LockOptions options = what.options;
  auto policy = AcquirePolicy::from(options).value_or_throw();
  policy.must_prove = false;
  WantedLock wanted{.key = std::move(what.key).value_or_throw(),
                    .durability = Durability::machine,
                    .min_replicas = options.min_replicas,
                    .holder = store->label(options.holder)};
  auto waiting = wait_for_lock(flow, store, std::move(wanted), policy, std::move(stop));
  auto grant = (co_await std::move(waiting)).value_or_throw();
  co_return Lease{.key = grant.key.str(),
                  .id = grant.id,
                  .ttl = grant.ttl.length(),
                  .fence = grant.fence,
                  .expires_at = grant.expires_at,
                  .authority = grant.authority,
                  .replicas = grant.replicas,
                  .acquire_may_be_repeated = grant.acquire_may_be_repeated};
}

Op<bool> perform(Flow flow, Store store, operation::Release what, std::stop_token stop) {
  ReleaseRequest request{.lock = {.id = checked_id(what.lock_id), .key = {}}};
  auto releasing = ask(flow, std::move(store), std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(releasing)).value_or_throw();
  co_return std::holds_alternative<Released>(outcome);
}

Op<std::optional<WallTime>> perform(Flow flow, Store store, operation::Extend what, std::stop_token stop) {
  ExtendRequest request{.lock = {.id = checked_id(what.lock_id), .key = {}},
                        .ttl = Ttl::of(what.ttl).value_or_throw()};
  auto extending = ask(flow, std::move(store), std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(extending)).value_or_throw();
  const auto* extended = std::get_if<Extended>(&outcome);
  co_return extended != nullptr ? std::optional(extended->expires_at) : std::nullopt;
}

Op<bool> perform(Flow flow, Store store, operation::IsLocked what, std::stop_token stop) {
  IsLockedRequest request{.key = std::move(what.key).value_or_throw()};
  co_return co_await flow.ask(store->backend, std::move(request), std::move(stop));
}

Op<std::optional<LockRecord>> perform(Flow flow, Store store, operation::GetByKeyRaw what,
                                      std::stop_token stop) {
  LookupRequest request{.what = std::move(what.key).value_or_throw()};
  co_return co_await flow.ask(store->backend, std::move(request), std::move(stop));
}

Op<std::optional<LockRecord>> perform(Flow flow, Store store, operation::GetByIdRaw what,
                                      std::stop_token stop) {
  LookupRequest request{.what = checked_id(what.lock_id)};
  co_return co_await flow.ask(store->backend, std::move(request), std::move(stop));
}

Op<std::optional<LockInfo>> sanitised(Op<std::optional<LockRecord>> raw) {
  const auto record = (co_await std::move(raw)).value_or_throw();
  co_return record ? std::optional(holdfast::sanitised(*record)) : std::nullopt;
}

Op<std::optional<LockInfo>> perform(Flow flow, Store store, operation::GetByKey what, std::stop_token stop) {
  return sanitised(perform(std::move(flow), std::move(store), operation::GetByKeyRaw{std::move(what.key)},
                           std::move(stop)));
}
Op<std::optional<LockInfo>> perform(Flow flow, Store store, operation::GetById what, std::stop_token stop) {
  return sanitised(perform(std::move(flow), std::move(store), operation::GetByIdRaw{std::move(what.lock_id)},
                           std::move(stop)));
}

Op<bool> perform(Flow flow, Store store, operation::Owns what, std::stop_token stop) {
  const auto id = checked_id(what.lock_id);
  auto looking =
      perform(flow, std::move(store), operation::GetByKeyRaw{std::move(what.key)}, std::move(stop));
  const auto record = (co_await std::move(looking)).value_or_throw();
  co_return record && record->id == id;
}

Op<LockPage> perform(Flow flow, Store store, operation::ListLocksRaw what, std::stop_token stop) {
  co_return co_await flow.ask(store->backend, std::move(what.request), std::move(stop));
}

Op<WaiterCounts> perform(Flow flow, Store store, operation::CountWaiters what, std::stop_token stop) {
  WaitersRequest request{.keys = std::move(what.keys)};
  co_return co_await flow.ask(store->backend, std::move(request), std::move(stop));
}

Op<std::unique_ptr<ChangeFeed>> perform(Flow flow, Store store, operation::FollowHeldLocks what,
                                        std::stop_token stop) {
  const FollowLocks request{.what = what.what};
  co_return co_await flow.ask(store->backend, request, std::move(stop));
}

Op<std::optional<LockInfo>> perform(Flow flow, Store store, operation::BreakLock what, std::stop_token stop) {
  const auto& reason = what.reason;
  if (reason.empty()) throw Error(ErrorCode::InvalidArgument, "the reason for breaking the lock is empty");
  // In a log, a second line could look like a separate message.
  if (std::ranges::any_of(reason, core::is_control)) {
    throw Error(ErrorCode::InvalidArgument, "the reason must be one line of text without control characters");
  }
  auto looking = perform(flow, store, operation::GetByKeyRaw{std::move(what.key)}, stop);
  const auto record = (co_await std::move(looking)).value_or_throw();
  if (!record || record->fence != what.held_with.value_or(record->fence)) co_return std::nullopt;
  // Released by its id: a lock that another holder has acquired since must not be broken.
  ReleaseRequest request{.lock = {.id = record->id, .key = record->key}, .broken_because = reason};
  if (record->holder) request.holder = std::make_shared<const LockHolder>(*record->holder);
  auto releasing = ask(flow, store, std::move(request), std::move(stop));
  const auto outcome = (co_await std::move(releasing)).value_or_throw();
  if (!std::holds_alternative<Released>(outcome)) co_return std::nullopt;
  auto info = holdfast::sanitised(*record);
  if (store->log) {
    store->log->write(LogLevel::warning,
                      "the lock with the key hash " + info.key_hash +
                          (info.holder ? ", held by " + printable(info.holder->str()) + "," : "") +
                          " was broken: " + reason);
  }
  co_return info;
}

}  // namespace locks

class [[gnu::visibility("hidden")]] Locks::End {
 public:
  explicit End(std::shared_ptr<LockStore> store) noexcept : store_(std::move(store)) {}
  /// A background thread would wait for itself.
  ~End() {
    if (!store_->process.is_current() || runtime::WorkerPool::on_library_thread()) return;
    if (!detail::Trampoline::busy()) store_->unfinished.wait_until_none();
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

 private:
  const std::shared_ptr<LockStore> store_;
};

Locks::Locks(std::shared_ptr<LockBackend> backend, std::shared_ptr<Log> log,
             std::shared_ptr<Observer> observer, std::shared_ptr<const LockHolder> holder)
    : store_(std::make_shared<LockStore>(std::move(backend), std::move(log), std::move(observer),
                                         std::move(holder))) {
  end_ = std::make_shared<End>(store_);
}

template <class Operation>
typename Operation::Answer Locks::run(Operation operation, std::stop_token stop) const {
  using runtime::Op;
  auto begun = locks::perform(runtime::Flow::blocking(), store_, std::move(operation), std::move(stop));
  return Op<typename Operation::Answer>::run(std::move(begun)).value_or_throw();
}

template <class Operation>
void Locks::start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) const {
  using runtime::Op;
  auto begun = locks::perform(store_->completing(), store_, std::move(operation), std::move(stop));
  Op<typename Operation::Answer>::start(std::move(begun), std::move(done));
}

/// Makes the compiler emit both forms of each operation.
template <class... Operations>
struct LockOperations {
  static constexpr auto forms = std::tuple{&Locks::run<Operations>..., &Locks::start<Operations>...};
};
template struct LockOperations<operation::Lock, operation::TryLock, operation::Adopt, operation::Acquire,
                               operation::Release, operation::Extend, operation::IsLocked,
                               operation::GetByKey, operation::GetById, operation::GetByKeyRaw,
                               operation::GetByIdRaw, operation::Owns, operation::ListLocksRaw,
                               operation::CountWaiters, operation::FollowHeldLocks, operation::BreakLock>;

void Locks::release_in_background(std::string_view lock_id) const noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::minutes(1);
  const auto id = LockId::parse(lock_id);
  if (!id || !store_->process.is_current()) return;
  store_->release_in_background(
      {.lock = {.id = *id, .key = {}}, .deadline = saturating_add(BootClock::now(), longest)},
      locks::ReleaseLoop::For::id_in_doubt);
}

Capabilities Locks::capabilities() const noexcept {
  return store_->backend->capabilities();
}
std::string Locks::authority() const {
  return store_->backend->authority();
}
std::shared_ptr<const LockHolder> Locks::holder() const noexcept {
  return store_->holder;
}
LockBackend& Locks::backend() const noexcept {
  return *store_->backend;
}

}  // namespace holdfast
