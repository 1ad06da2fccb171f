#include "new_task.hpp"

#include <set>

#include "assignment.hpp"
#include "duration.hpp"
#include "json_text.hpp"
#include "output.hpp"
#include "task_access.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {

void NewTaskOptions::add_to(Command command) {
  command
      .add_option(
          "--ttl", ttl,
          "When the task is gone, finished or not, counted from its creation (default 1h, at most 24h, see\n"
          "`holdfast task --help`; it cannot be lengthened)")
      .value_name("DURATION");
  command.add_option("--method", method, "What it is about, in your words").value_name("TEXT");
  command
      .add_option("--request-key", request_key,
                  "The same key gives the same task for as long as that lives, however often it is asked for")
      .value_name("KEY");
}

NewTask NewTaskOptions::request() const {
  NewTask request{.method = method};
  if (ttl) request.ttl = parse_positive_duration("--ttl", *ttl);
  if (request_key) {
    // Empty would mean none, and a script with an unset variable would create a task each time.
    if (request_key->empty()) throw UsageError("--request-key: is empty; leave it out, or name the request");
    request.request_key = *request_key;
  }
  return request;
}

Json parse_assignments(const std::vector<std::string>& assignments) {
  JsonObject object;
  std::set<std::string> names;
  for (const auto& text : assignments) {
    const auto assignment = split_assignment(text);
    if (!assignment) {
      throw UsageError(quote(text) + " is no assignment; write NAME=JSON, for example progress=0.5");
    }
    const auto& [name, value] = *assignment;
    if (!Json::string(name)) throw UsageError("the name " + quote(name) + " is not UTF-8");
    if (!names.insert(name).second) throw UsageError(quote(name) + " is given twice");
    object.add(name, parse_json_argument(name + "=", value).str());
  }
  return object.json();
}

}  // namespace holdfast::cli
