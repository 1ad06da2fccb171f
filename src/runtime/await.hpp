#pragma once

#include <holdfast/lock_backend.hpp>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace holdfast::runtime {

/// The blocking adapter: submits one operation of a contract and waits for its result, in the slot. The
/// engine may use the waiting thread for its I/O.
template <class Backend, class Request, class Outcome = typename std::remove_cvref_t<Request>::Outcome>
void await_into(Slot<Outcome>& slot, Backend& backend, Request&& request, std::stop_token stop = {}) {
  backend.submit(std::forward<Request>(request), std::move(stop), Done<Outcome>::into(slot));
  if (!slot.completion.finished()) backend.wait(slot.completion);
}

template <class Backend, class Request, class Outcome = typename std::remove_cvref_t<Request>::Outcome>
Result<Outcome> await(Backend& backend, Request&& request, std::stop_token stop = {}) {
  Slot<Outcome> slot;
  await_into(slot, backend, std::forward<Request>(request), std::move(stop));
  return *std::move(slot.result);
}

/// The same for a wait: true if woken.
inline bool await(Watch& watch, BootTime look_again_at, BootTime deadline, std::stop_token stop = {}) {
  Slot<bool> slot;
  watch.wait(look_again_at, deadline, std::move(stop), Done<bool>::into(slot));
  slot.completion.wait();
  return slot.result->ok() && **slot.result;
}

}  // namespace holdfast::runtime
