#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace holdfast::test {

/// Under a sanitizer, waits until no other thread runs.
void get_ready_to_fork();

/// Runs the body in a forked child; true if it returned true.
template <class F>
bool in_child(F&& body) {
  get_ready_to_fork();
  const pid_t pid = fork();
  if (pid == 0) {
    bool ok = false;
    try {
      ok = body();
    } catch (...) {
      ok = false;
    }
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace holdfast::test
