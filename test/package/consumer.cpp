// A program outside the project: takes a lock with nothing but the public headers.
#include <holdfast/holdfast.hpp>
#include <iostream>

using namespace std::chrono_literals;

int main() {
  auto hf = holdfast::open("memory:");
  const auto guard = hf.locks().lock("consumer", {.ttl = 10s, .wait = 1s});
  std::cout << holdfast::version() << ' ' << guard.fence().to_string() << '\n';
  return guard.still_held() ? 0 : 1;
}
