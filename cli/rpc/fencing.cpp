#include "rpc/fencing.hpp"

#include "rpc/failure.hpp"
#include "rpc/session.hpp"

namespace holdfast::cli::rpc {
namespace {

FencingToken spelled_out(const Params& params, const AsyncLocks& locks) {
  if (!params.has("fence")) throw bad_params("fence: is missing; lockKey and authority go with one");
  if (!params.has("lockKey")) throw bad_params("lockKey: is missing; say of which lock the fence is");
  return {.authority = params.text_if("authority").value_or(locks.authority()),
          .lock_key = LockKey::parse(params.text("lockKey")).value_or_throw().str(),
          .fence = params.fence("fence")};
}

}  // namespace

asio::awaitable<std::optional<FencingToken>> fencing_token(const Call& call) {
  const auto& params = call.params;
  auto& session = *call.session;
  auto& locks = session.service().locks();
  const bool in_words = params.has("fence") || params.has("lockKey") || params.has("authority");
  if (!params.has("lockId")) {
    if (!in_words) co_return std::nullopt;
    co_return spelled_out(params, locks);
  }
  if (in_words) throw bad_params("give either lockId, or fence and lockKey");
  const std::string lock_id(LockId::parse(params.text("lockId")).value_or_throw().str());
  if (const auto guard = session.held().find(lock_id)) {
    if (guard->loss_reason()) {
      throw Error(ErrorCode::StaleFence, "that lock is lost, so nothing was written under it; release it");
    }
    co_return FencingToken{
        .authority = guard->authority(), .lock_key = guard->key(), .fence = guard->fence()};
  }
  const auto record = co_await locks.get_by_id_raw(lock_id);
  if (!record) {
    throw Error(
        ErrorCode::StaleFence,
        "that lock id holds no lock: it was released or has expired, so nothing was written under it");
  }
  co_return FencingToken{
      .authority = locks.authority(), .lock_key = record->key.str(), .fence = record->fence};
}

}  // namespace holdfast::cli::rpc
