#include "engine/redis/doctor/observe.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "engine/redis/errors.hpp"
#include "engine/redis/lock_commands.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::microseconds;

constexpr int pings = 20;
constexpr int clock_samples = 5;
constexpr std::size_t memory_samples = 20;
constexpr std::uint64_t scan_step = 1000;
/// A database of a hundred million keys would take minutes; what was seen by then is a fair sample, for SCAN
/// visits keys in no order of theirs.
constexpr auto scan_at_most = std::chrono::seconds(10);
constexpr std::uint64_t tell_every = 200 * scan_step;
/// How long what is written to try the right to write outlives an examination that breaks off.
constexpr auto trial_life_ms = "10000";

/// A line to a server for questions, one at a time.
class Line {
 public:
  explicit Line(const std::shared_ptr<const Endpoint>& endpoint) : client_(Client::make(endpoint)) {}
  ~Line() { client_->close(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// The answer, errors of the server's included. Throws Error if there is none.
  Reply ask(std::string bytes) {
    const auto& options = client_->endpoint().options();
    const auto deadline =
        saturating_add(BootClock::now(), std::max(options.command_timeout, options.connect_timeout));
    return client_->call_bytes(std::move(bytes), deadline, true).value_or_throw();
  }
  Reply ask(const Command& command) { return ask(command.bytes()); }
  Reply ask(std::initializer_list<std::string_view> words) { return ask(Command(words)); }

 private:
  std::shared_ptr<Client> client_;
};

/// What an answer says about the right to ask.
Right right_of(std::string command, const redisReply& reply) {
  Right right{.command = std::move(command)};
  if (!is_error(reply)) return right;
  const auto text = text_of(reply);
  if (!text.starts_with("NOPERM")) {
    right.failure = text;
    return right;
  }
  const auto mentions = [text](std::string_view word) { return text.find(word) != std::string_view::npos; };
  right.missing = mentions("channel") && !mentions("command") ? Right::Missing::channel
                  : mentions("command")                       ? Right::Missing::command
                                                              : Right::Missing::key;
  return right;
}

/// The names that a lock of nobody's would have: of each kind one, and its channel.
struct TrialNames {
  LockId id = LockId::generate();
  std::string lock, index, fence, channel;

  explicit TrialNames(const Layout& layout) {
    const auto key = LockKey::parse("holdfast-doctor:" + std::string(id.str())).value_or_throw();
    lock = layout.lock_key(key).value_or_throw();
    index = layout.index_key(id);
    fence = layout.fence_key(lock).value_or_throw();
    channel = layout.channel(lock);
  }
  [[nodiscard]] std::array<std::string_view, 3> keys() const { return {lock, index, fence}; }
};

class Observer {
 public:
  Observer(const std::shared_ptr<const Endpoint>& endpoint, const Layout& layout, const Progress& progress)
      : endpoint_(endpoint),
        options_(endpoint->options()),
        layout_(layout),
        progress_(progress),
        line_(endpoint),
        listener_(endpoint),
        trial_(layout) {}

  Observations look() {
    about_the_server();
    rights();
    wake_ups();
    script();
    round_trips();
    clock();
    fences();
    if (struct stat file{};
        !options_.password_file.empty() && ::stat(options_.password_file.c_str(), &file) == 0) {
      seen_.password_file_mode = file.st_mode & 07777U;
    }
    return std::move(seen_);
  }

 private:
  std::optional<std::string> config(std::string_view name) {
    const auto reply = line_.ask({"CONFIG", "GET", name});
    const auto pair = elements_of(*reply);
    if (pair.size() != 2) return std::nullopt;
    return std::string(text_of(*pair[1]));
  }

  void about_the_server() {
    if (const auto reply = line_.ask({"INFO"}); !is_error(*reply)) seen_.info = parse_info(text_of(*reply));
    seen_.save = config("save");
    seen_.appendfsync = config("appendfsync");
    if (const auto reply = line_.ask({"ACL", "WHOAMI"}); !is_error(*reply)) seen_.user = text_of(*reply);
  }

  void note(std::string command, const redisReply& reply) {
    seen_.rights.push_back(right_of(std::move(command), reply));
  }
  [[nodiscard]] bool may(std::string_view command) const {
    const auto found = std::ranges::find(seen_.rights, command, &Right::command);
    return found != seen_.rights.end() && found->missing == Right::Missing::none && found->failure.empty();
  }

  /// One command on a key of each kind: the first refusal counts.
  template <class Make>
  void try_on_keys(const std::string& command, Make&& make) {
    Right right;
    for (const auto key : trial_.keys()) {
      right = right_of(command, *line_.ask(make(key)));
      if (right.missing != Right::Missing::none) break;
    }
    seen_.rights.push_back(std::move(right));
  }

  /// Each right is tried, not asked for: ACL DRYRUN and GETUSER take rights that a user who lacks others does
  /// not have either. What is written has a name nobody else uses, and is deleted below.
  void rights() {
    try_on_keys("get", [](std::string_view key) { return Command{"GET", key}; });
    try_on_keys("set", [](std::string_view key) { return Command{"SET", key, "x", "PX", trial_life_ms}; });
    // On what is no number: refused if permitted. Without that value it would start a counter.
    if (may("set")) {
      auto right = right_of("incr", *line_.ask({"INCR", trial_.fence}));
      if (right.failure.find("not an integer") != std::string::npos) right.failure.clear();
      seen_.rights.push_back(std::move(right));
    }
    try_on_keys("del", [](std::string_view key) { return Command{"DEL", key}; });
    note("time", *line_.ask({"TIME"}));
    note("eval", *line_.ask({"EVAL", "return 1", "0"}));
    auto right = right_of("evalsha", *line_.ask({"EVALSHA", std::string(40, '0'), "0"}));
    if (right.failure.starts_with("NOSCRIPT")) right.failure.clear();
    seen_.rights.push_back(std::move(right));
    note("scan", *line_.ask({"SCAN", "0", "COUNT", "1"}));
    note("client|setname", *line_.ask({"CLIENT", "SETNAME", options_.client_name}));
    note("ping", *line_.ask({"PING"}));
  }

  void wake_ups() {
    note("subscribe", *listener_.ask({"SUBSCRIBE", trial_.channel}));
    const auto published = line_.ask({"PUBLISH", trial_.channel, "1"});
    note("publish", *published);
    if (may("subscribe") && may("publish")) seen_.message_reached = integer_of(*published);
    // On a line of its own: the message is still to come on the other.
    Line another(endpoint_);
    note("unsubscribe", *another.ask({"UNSUBSCRIBE", trial_.channel}));
  }

  void script() {
    // The release of a lock that nobody holds: one of the scripts that matter, and it changes nothing.
    const LockRef nobodys{.id = trial_.id, .key = std::nullopt};
    const auto ask = [&](By by) {
      return line_.ask(release_command(layout_, nobodys, Release::plain, by).value_or_throw());
    };
    auto reply = ask(By::sha);
    if (is_noscript(*reply)) {
      reply = ask(By::text);
      if (!is_error(*reply)) reply = ask(By::sha);
    }
    if (is_error(*reply)) seen_.script_failure = text_of(*reply);
  }

  void round_trips() {
    const std::string_view question = may("ping") ? "PING" : "TIME";
    for (int i = 0; i < pings; ++i) {
      const auto before = BootClock::now();
      (void)line_.ask({question});
      seen_.round_trips.push_back(BootClock::now() - before);
    }
  }

  /// The sample with the shortest way there and back is the best one.
  void clock() {
    if (!may("time")) return;
    for (int i = 0; i < clock_samples; ++i) {
      const auto before = std::chrono::system_clock::now();
      const auto reply = line_.ask({"TIME"});
      const auto after = std::chrono::system_clock::now();
      const auto parts = elements_of(*reply);
      if (parts.size() != 2) return;
      const auto server = std::chrono::seconds(std::stoll(std::string(text_of(*parts[0])))) +
                          microseconds(std::stoll(std::string(text_of(*parts[1]))));
      const auto half = std::chrono::ceil<microseconds>((after - before) / 2);
      if (seen_.clock_ahead && half >= seen_.clock_uncertainty) continue;
      const auto here = std::chrono::floor<microseconds>(before.time_since_epoch()) + half;
      seen_.clock_ahead = server - here;
      seen_.clock_uncertainty = half;
    }
  }

  void fences() {
    const auto authority = line_.ask({"GET", layout_.authority_key()});
    seen_.has_authority = !is_error(*authority) && authority->type != REDIS_REPLY_NIL;
    const auto size = integer_of(*line_.ask({"DBSIZE"}));
    if (!may("scan") || !size) return;
    FenceCount count{.keys = static_cast<std::uint64_t>(*size)};
    std::vector<std::string> samples;
    std::string cursor = "0";
    const auto give_up_at = BootClock::now() + scan_at_most;
    do {
      const auto page =
          line_.ask({"SCAN", cursor, "MATCH", layout_.pattern(), "COUNT", std::to_string(scan_step)});
      const auto parts = elements_of(*page);
      if (parts.size() != 2) return;
      cursor = text_of(*parts[0]);
      for (const auto* name : elements_of(*parts[1])) {
        // Longer than the common start: that alone is the authority.
        const auto text = text_of(*name);
        if (!text.starts_with(layout_.authority_key()) || text.size() == layout_.authority_key().size())
          continue;
        ++count.counters;
        if (samples.size() < memory_samples) samples.emplace_back(text);
      }
      count.looked_at += scan_step;
      if (progress_ && count.looked_at % tell_every == 0) {
        progress_("looked at " + std::to_string(std::min(count.looked_at, count.keys)) + " of " +
                  std::to_string(count.keys) + " keys for fence counters");
      }
    } while (cursor != "0" && BootClock::now() < give_up_at);
    if (cursor == "0") count.looked_at = std::max(count.looked_at, count.keys);
    std::int64_t bytes = 0, weighed = 0;
    for (const auto& name : samples) {
      const auto size_of_one = integer_of(*line_.ask({"MEMORY", "USAGE", name}));
      if (!size_of_one) continue;
      bytes += *size_of_one;
      ++weighed;
    }
    if (weighed > 0) count.bytes_each = static_cast<double>(bytes) / static_cast<double>(weighed);
    seen_.fences = count;
  }

  const std::shared_ptr<const Endpoint>& endpoint_;
  const RedisOptions& options_;
  const Layout& layout_;
  const Progress& progress_;
  Line line_, listener_;
  TrialNames trial_;
  Observations seen_;
};

}  // namespace

Result<Observations> observe(const std::shared_ptr<const Endpoint>& endpoint, const Layout& layout,
                             const Progress& progress) {
  try {
    return Observer(endpoint, layout, progress).look();
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace holdfast::redis
