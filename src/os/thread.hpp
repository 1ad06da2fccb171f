#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace holdfast::os {

/// A thread that blocks all signals, so that the program's own threads get them.
template <class F>
[[nodiscard]] std::thread start_thread(F&& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{before};
  return std::thread(std::forward<F>(body));
}

}  // namespace holdfast::os
