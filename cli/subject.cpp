#include "subject.hpp"

#include "output.hpp"

namespace holdfast::cli {

Subject Subject::lock(const std::string& key) {
  const auto name = quote(key);
  return {.key = key,
          .name = name,
          .noun = "the lock " + name,
          .running = "under the lock " + name,
          .taken = name + " is locked by somebody else",
          .nested = name +
                    " is held by the `holdfast run` that this command runs under; waiting for it would never "
                    "end. The lock is held already: run the command directly, or use another key"};
}

Subject Subject::task(const std::string& id, const std::string& key) {
  const auto name = "the task " + quote(id);
  return {.key = key,
          .name = name,
          .noun = name,
          .running = "as " + name,
          .taken = name + " is worked on by somebody else",
          .nested = name +
                    " is the one that this command runs as; waiting for it would never end. Run the command "
                    "directly, or as another task"};
}

}  // namespace holdfast::cli
