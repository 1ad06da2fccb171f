#include "lease_times.hpp"

#include <algorithm>
#include <holdfast/lock_types.hpp>

#include "duration.hpp"
#include "output.hpp"
#include "usage_error.hpp"

namespace holdfast::cli {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

LeaseTimes LeaseOptions::check() const {
  LeaseTimes times;
  times.ttl = Ttl::of(parse_positive_duration(ttl_name, ttl)).value_or_throw().length();
  if (max_hold) times.max_hold = parse_positive_duration("--max-hold", *max_hold);

  // The command must be gone before the lease or the longest hold ends, whichever is shorter.
  const bool capped = times.max_hold > milliseconds::zero() && times.max_hold < times.ttl;
  const nanoseconds shortest = capped ? times.max_hold : times.ttl;
  const std::string limit = capped ? "--max-hold" : ttl_name;
  times.margin = std::clamp<nanoseconds>(shortest / 20, milliseconds(10), milliseconds(500));
  times.grace = std::min<nanoseconds>(std::chrono::seconds(5), shortest / 6);
  if (grace) {
    times.grace = parse_duration("--grace", *grace);
    if (times.grace > shortest / 3) {
      throw UsageError("--grace: " + quote(*grace) + " is more than a third of the " + limit + " of " +
                       describe(std::chrono::floor<milliseconds>(shortest)) +
                       "; the lock could not be renewed in time. Use a longer " + limit +
                       " or a shorter --grace");
    }
  }
  return times;
}

}  // namespace holdfast::cli
