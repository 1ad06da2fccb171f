#include "engine/redis/transport.hpp"

#include <utility>

#include "engine/redis/client.hpp"

namespace holdfast::redis {
namespace {

/// A call that a thread waits for.
struct BlockingCall final : Call {
  explicit BlockingCall(Slot<Reply>& slot) : done(Done<Reply>::into(slot)) { awaited = true; }
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override { done(std::move(answer)); }
  Done<Reply> done;
};

}  // namespace

Result<Reply> Transport::call(Command command, BootTime deadline, bool fail_fast) {
  return call_bytes(std::move(command).bytes(), deadline, fail_fast);
}

Result<Reply> Transport::call_bytes(std::string bytes, BootTime deadline, bool fail_fast) {
  Slot<Reply> slot;
  auto call = std::make_unique<BlockingCall>(slot);
  call->bytes = std::move(bytes);
  call->deadline = deadline;
  call->patience = endpoint().options().command_timeout;
  call->fail_fast = fail_fast;
  send(std::move(call), {});
  wait(slot.completion);
  return *std::move(slot.result);
}

}  // namespace holdfast::redis
