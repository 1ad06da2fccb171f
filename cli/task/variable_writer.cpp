#include "task/variable_writer.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "arguments/values.hpp"
#include "process/job_control.hpp"
#include "rpc/json/text.hpp"
#include "supervision/line_splitter.hpp"
#include "terminal/output.hpp"

namespace holdfast::cli {
namespace {

constexpr std::size_t max_pending_bytes = std::size_t{8} * 1024 * 1024;
/// How many names are remembered as reported. A command that makes up more of them is told so once.
constexpr std::size_t max_reported = 10'000;
/// How many names one message has: of variables that are refused for the same reason, such as their sum.
constexpr std::size_t max_names = 20;
/// How much of a name a message shows, in bytes.
constexpr std::size_t max_shown = 100;
/// How often the variables that fit are chosen anew, because another client changes the others meanwhile.
constexpr int max_choices = 3;
constexpr std::string_view example = "lines must be NAME=JSON (progress=0.5, phase=\"upload\")";

/// What a task has may exceed limits that were lowered.
constexpr TaskOptions no_limits{.max_variable_depth = SIZE_MAX, .max_string_bytes = SIZE_MAX};

template <class Variable>
std::size_t memory_of(const Variable& variable) noexcept {
  return variable.first.size() + variable.second.json.size();
}

template <class Variables>
Json object_of(const Variables& variables) {
  rpc::JsonObject object;
  for (const auto& [name, value] : variables) object.add(name, value.json);
  return object.json();
}

}  // namespace

VariableWriter::VariableWriter(Target target, std::function<void(const std::string&)> complain)
    : target_(std::move(target)), complain_(std::move(complain)), thread_([this] {
        block_all_signals();
        keep_writing();
      }) {}

VariableWriter::~VariableWriter() {
  finish();
}

void VariableWriter::line(std::string_view text) {
  const bool is_too_long = text.size() > LineSplitter::max_line;
  auto assignment = split_assignment(text);
  if (!assignment || !Json::string(assignment->first)) {
    const std::lock_guard lock(reporting_);
    if (!std::exchange(complained_of_line_, true)) {
      complain_("descriptor 3: " + quote(text.substr(0, max_shown)) + " was ignored; " +
                std::string(example));
    }
    return;
  }
  auto& [name, json] = *assignment;
  if (is_too_long) {
    return report(name, "its line is longer than " + std::to_string(LineSplitter::max_line) + " bytes");
  }
  const auto parsed = Json::parse(json);
  if (!parsed) return report(name, "its value is not JSON; " + std::string(example));
  Value value{.json = std::move(json)};
  if (!parsed->is_null()) {
    const auto bytes = variable_bytes(name, *parsed, target_.limits);
    if (!bytes) return report(name, bytes.error().message());
    value.bytes = *bytes;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto old = pending_.find(name);
    const auto freed = old == pending_.end() ? 0 : memory_of(*old);
    const auto added = name.size() + value.json.size();
    if (added <= freed || pending_bytes_ - freed + added <= max_pending_bytes) {
      pending_bytes_ += added - freed;
      pending_.insert_or_assign(std::move(name), std::move(value));
      changed_.notify_one();
      return;
    }
  }
  report(name, std::to_string(max_pending_bytes) + " bytes of variables wait for the store already");
}

void VariableWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void VariableWriter::keep_writing() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return end_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const bool last = end_;
    auto batch = std::exchange(pending_, {});
    pending_bytes_ = 0;
    lock.unlock();
    auto written = write(std::move(batch));
    if (last) report(written.rest, written.why, "may not be stored");
    lock.lock();
    if (written.outcome == Outcome::closed) {
      closed_ = true;
      return;
    }
    if (!last) {
      for (auto& variable : written.rest) {
        const auto bytes = memory_of(variable);
        // A value that came meanwhile is newer, and stays.
        if (pending_.insert(std::move(variable)).second) pending_bytes_ += bytes;
      }
    }
    const auto rest = written.outcome == Outcome::retry ? std::chrono::seconds(1) : pause;
    changed_.wait_for(lock, rest, [this] { return end_; });
  }
}

VariableWriter::Written VariableWriter::write(Variables batch) {
  try {
    target_.write(object_of(batch));
    return {};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::TooLarge) return write_what_fits(std::move(batch), error);
    return failed(std::move(batch), error);
  }
}

/// Each variable is good by itself, but the task cannot have them all: those are written that fit beside the
/// others which the task has, first those that need no further room. So one refused variable costs no other.
VariableWriter::Written VariableWriter::write_what_fits(Variables batch, const Error& refusal) {
  for (int choice = 0; choice < max_choices; ++choice) {
    Variables refused;
    try {
      const auto there = target_.read();
      std::size_t used = 1;
      std::map<std::string, std::size_t> sizes;
      for (const auto& [name, value] : rpc::members_of(there)) {
        const auto bytes =
            variable_bytes(name, Json::unchecked(std::string(value)), no_limits).value_or_throw();
        sizes[name] = bytes;
        used += bytes;
      }
      const auto size_of = [&sizes](const std::string& name) {
        const auto at = sizes.find(name);
        return at == sizes.end() ? 0 : at->second;
      };
      Variables chosen;
      for (const bool grows : {false, true}) {
        for (const auto& [name, value] : batch) {
          const auto before = size_of(name);
          if ((value.bytes > before) != grows) continue;
          if (value.bytes == 0 && before == 0) continue;  // there is nothing to delete
          if (grows && used - before + value.bytes > target_.limits.max_variables_bytes) {
            refused.emplace(name, value);
          } else {
            used = used - before + value.bytes;
            chosen.emplace(name, value);
          }
        }
      }
      if (!chosen.empty()) target_.write(object_of(chosen));
      report(refused, refusal.message());
      return {};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::TooLarge) return failed(std::move(batch), error);
    }
  }
  report(batch, refusal.message());
  return {};
}

VariableWriter::Written VariableWriter::failed(Variables batch, const Error& error) {
  switch (error.code()) {
    case ErrorCode::NotFound:
    case ErrorCode::InvalidTransition:
    case ErrorCode::StaleFence:
    case ErrorCode::WrongLock:
      // The command is about to be stopped, which is reported.
      return {.outcome = Outcome::closed, .rest = {}, .why = {}};
    default:
      break;
  }
  if (error.transient() || error.code() == ErrorCode::ConcurrentChange) {
    const std::lock_guard lock(reporting_);
    if (!std::exchange(complained_of_store_, true)) {
      complain_("the variables of the task " + quote(target_.task) +
                " are late; trying again: " + printable(error.message()));
    }
    return {.outcome = Outcome::retry, .rest = std::move(batch), .why = error.message()};
  }
  report(batch, error.message());
  return {};
}

void VariableWriter::report(std::string_view name, std::string_view why) {
  report(Variables{{std::string(name), {}}}, why);
}

void VariableWriter::report(const Variables& refused, std::string_view why, std::string_view verb) {
  const std::lock_guard lock(reporting_);
  std::string names;
  std::size_t count = 0;
  for (const auto& [name, value] : refused) {
    const auto shown = name.substr(0, max_shown);
    if (reported_.size() >= max_reported || !reported_.insert(shown).second) continue;
    if (++count <= max_names) names += (count > 1 ? ", " : "") + quote(shown);
    if (reported_.size() == max_reported) {
      complain_("further variables of the task " + quote(target_.task) +
                " that are not stored are not named");
    }
  }
  if (count == 0) return;
  if (count > max_names) names += " and " + std::to_string(count - max_names) + " more";
  complain_("variables of the task " + quote(target_.task) + " " + std::string(verb) + ": " + names + ": " +
            printable(why.substr(0, 10 * max_shown)));
}

}  // namespace holdfast::cli
