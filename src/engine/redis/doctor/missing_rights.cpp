#include "engine/redis/doctor/observations.hpp"

#include <algorithm>
#include <utility>

#include "engine/redis/conn/key_tracking.hpp"

namespace holdfast::redis {
namespace {

/// The commands that were refused for one reason.
struct Refusal {
  Right::Missing missing;
  std::string rule;
  std::optional<Half> half;
  std::vector<const CommandRight*> commands = {};
};

/// "get, set and del".
std::string enumerated(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

class Refusals {
 public:
  Refusals(const RedisOptions& options, const Observations& seen)
      : acl_(redis_acl(options).value_or_throw()),
        known_(command_rights(options, seen.in_cluster)),
        options_(options),
        seen_(seen) {
    for (const auto& right : seen.rights) add(right);
  }

  [[nodiscard]] std::vector<MissingRight> gaps() const {
    std::vector<MissingRight> gaps;
    gaps.reserve(all_.size());
    for (const auto& refusal : all_) gaps.push_back(gap_of(refusal));
    return gaps;
  }

 private:
  void add(const Right& right) {
    const auto known = std::ranges::find(known_, right.command, &CommandRight::name);
    if (right.missing == Right::Missing::none || known == known_.end()) return;
    const auto half = static_cast<std::size_t>(right.half.value_or(Half::locks));
    const bool of_command = right.missing == Right::Missing::command;
    const auto rule = of_command                               ? "+" + known->acl_name()
                      : right.missing == Right::Missing::key   ? "~" + acl_.keys[half]
                      : known->on == CommandRight::On::nothing ? "&" + std::string(invalidation_channel)
                                                               : "&" + acl_.channels[half];
    auto found = std::ranges::find(all_, rule, &Refusal::rule);
    if (found == all_.end()) {
      found = all_.insert(
          all_.end(),
          {.missing = right.missing, .rule = rule, .half = of_command ? std::nullopt : right.half});
    }
    if (std::ranges::find(found->commands, &*known) == found->commands.end()) {
      found->commands.push_back(&*known);
    }
  }

  [[nodiscard]] MissingRight gap_of(const Refusal& refusal) const {
    MissingRight gap{.rule = refusal.rule, .severity = Severity::ok, .what = {}, .lost = {}};
    std::vector<std::string> names;
    names.reserve(refusal.commands.size());
    for (const auto* command : refusal.commands) names.push_back(command->acl_name());
    auto without =
        refusal.half ? without_all(refusal.commands, *refusal.half, options_) : refusal.commands[0]->in_all();
    gap.severity = without.severity;
    gap.lost = std::move(without.lost);
    const auto pattern = refusal.rule.substr(1);
    switch (refusal.missing) {
      case Right::Missing::key:
        if (is_whole(refusal)) {
          gap.what = "has no access to the keys " + pattern;
          gap.lost = refusal.half == Half::tasks ? "tasks cannot be used" : "locks cannot be used";
        } else {
          gap.what = "may not use " + enumerated(names) + " on all the keys " + pattern;
        }
        break;
      case Right::Missing::channel:
        gap.what = "has no access to the channels " + pattern;
        break;
      case Right::Missing::command:
      case Right::Missing::none:
        gap.what = "may not use the command " + enumerated(names);
        break;
    }
    return gap;
  }

  /// Whether every command tried on keys of that half was refused, of those that the user may run.
  [[nodiscard]] bool is_whole(const Refusal& refusal) const {
    return std::ranges::none_of(seen_.rights, [&](const Right& right) {
      const auto known = std::ranges::find(known_, right.command, &CommandRight::name);
      return known != known_.end() && known->on == CommandRight::On::keys && right.half == refusal.half &&
             right.missing == Right::Missing::none;
    });
  }

  RedisAcl acl_;
  std::vector<CommandRight> known_;
  const RedisOptions& options_;
  const Observations& seen_;
  std::vector<Refusal> all_;
};

}  // namespace

std::vector<MissingRight> missing_rights(const RedisOptions& options, const Observations& seen) {
  return Refusals(options, seen).gaps();
}

}  // namespace holdfast::redis
