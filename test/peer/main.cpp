// The other process of open_in_another_process: carries out operations read from stdin.

#include <atomic>
#include <holdfast/open.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <stop_token>

#include "support/calls.hpp"
#include "support/peer_protocol.hpp"

namespace holdfast::test::peer {
namespace {

class Peer {
 public:
  explicit Peer(const std::string& url) : holdfast_(open(url)), backend_(holdfast_.locks().backend()) {}

  json answer(const json& ask) {
    const std::string op = ask.at("op");
    if (op == "authority") return {{"authority", backend_.authority()}};
    if (op == "acquire") return acquire(ask);
    if (op == "release") return release(ask);
    if (op == "extend") return extend(ask);
    if (op == "is_locked") return {{"locked", is_locked(backend_, to_key(ask.at("key")).str())}};
    if (op == "lookup") return lookup(ask);
    if (op == "list") return list(ask);
    if (op == "waiters") return waiters(ask);
    if (op == "watch") {
      watches_[ask.at("watch")] = watch_of(backend_, to_key(ask.at("key")));
      return json::object();
    }
    if (op == "wait") return {{"woken", wait_until(*watches_.at(ask.at("watch")), to_time(ask.at("until")))}};
    if (op == "begin_wait") return begin_wait(ask);
    if (op == "stop_waiting") waits_.at(ask.at("watch"))->stop.request_stop();
    if (op == "ended") {
      const int woken = waits_.at(ask.at("watch"))->woken;
      return {{"woken", woken < 0 ? json() : json(woken > 0)}};
    }
    if (op == "pass_on") watches_.at(ask.at("watch"))->pass_on();
    if (op == "unwatch") watches_.erase(ask.at("watch").get<int>());
    return json::object();
  }

 private:
  /// A wait for which no thread sleeps.
  struct Wait {
    std::stop_source stop;
    std::atomic<int> woken = -1;  ///< 0 or 1 when it has ended
  };

  json begin_wait(const json& ask) {
    const auto wait = std::make_shared<Wait>();
    waits_[ask.at("watch")] = wait;
    watches_.at(ask.at("watch"))
        ->wait(to_time(ask.at("look_again")), to_time(ask.at("deadline")), wait->stop.get_token(),
               [wait](const Result<bool>& woken) { wait->woken = *woken ? 1 : 0; });
    return json::object();
  }

  json acquire(const json& ask) {
    const auto result =
        try_acquire(backend_, {.id = to_id(ask.at("id")),
                               .key = to_key(ask.at("key")),
                               .ttl = ttl(milliseconds(ask.at("ttl").get<std::int64_t>())),
                               .durability = static_cast<Durability>(ask.at("durability").get<int>()),
                               .deadline = to_time(ask.at("deadline")),
                               .holder = to_holder(ask.at("holder"))});
    if (!result) return to_json(result.error());
    if (const auto* granted = std::get_if<Granted>(&*result)) {
      return {{"fence", granted->fence.value()}, {"expires", to_ms(granted->expires_at)}};
    }
    const auto& refused = std::get<Refused>(*result);
    return {{"free_in", refused.free_in ? json(refused.free_in->count()) : json()},
            {"holder", to_json(refused.holder.get())}};
  }

  json release(const json& ask) {
    const auto result =
        try_release(backend_, {.lock = to_ref(ask.at("lock")),
                               .durability = static_cast<Durability>(ask.at("durability").get<int>()),
                               .deadline = to_time(ask.at("deadline"))});
    if (!result) return to_json(result.error());
    const auto* absence = std::get_if<Absence>(&*result);
    return absence != nullptr ? json{{"absence", static_cast<int>(*absence)}} : json::object();
  }

  json extend(const json& ask) {
    ExtendRequest request{.lock = to_ref(ask.at("lock")),
                          .ttl = ttl(milliseconds(ask.at("ttl").get<std::int64_t>())),
                          .durability = static_cast<Durability>(ask.at("durability").get<int>()),
                          .deadline = to_time(ask.at("deadline"))};
    if (ask.contains("new_holder")) request.new_holder = to_holder(ask.at("new_holder"));
    const auto result = try_extend(backend_, std::move(request));
    if (!result) return to_json(result.error());
    const auto* absence = std::get_if<Absence>(&*result);
    if (absence != nullptr) return {{"absence", static_cast<int>(*absence)}};
    return {{"expires", to_ms(std::get<Extended>(*result).expires_at)}};
  }

  json lookup(const json& ask) {
    const auto found = ask.contains("id") ? test::lookup(backend_, to_id(ask.at("id")))
                                          : test::lookup(backend_, to_key(ask.at("key")).str());
    return {{"record", found ? to_json(*found) : json()}};
  }

  json list(const json& ask) {
    ListRequest request{.cursor = hex_to_bytes(ask.at("cursor")), .limit = ask.at("limit")};
    for (const auto& one : ask.at("only")) request.only.push_back(to_key(one));
    const auto page = test::list(backend_, std::move(request));
    if (!page) return to_json(page.error());
    json locks = json::array();
    for (const auto& record : page->locks) locks.push_back(to_json(record));
    return {{"locks", locks}, {"cursor", bytes_to_hex(page->cursor)}};
  }

  json waiters(const json& ask) {
    std::vector<LockKey> keys;
    for (const auto& one : ask.at("keys")) keys.push_back(to_key(one));
    json counts = json::array();
    for (const auto& count : count_waiters(backend_, std::move(keys))) {
      counts.push_back(count ? json(*count) : json());
    }
    return {{"waiters", counts}};
  }

  Holdfast holdfast_;
  LockBackend& backend_;
  std::map<int, std::unique_ptr<Watch>> watches_;
  std::map<int, std::shared_ptr<Wait>> waits_;
};

}  // namespace
}  // namespace holdfast::test::peer

int main(int argc, char** argv) {
  using namespace holdfast::test::peer;
  if (argc != 2) return 64;
  Peer peer(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      answer = peer.answer(json::parse(line));
    } catch (const holdfast::Error& error) {
      answer = to_json(error);
    }
    std::cout << answer.dump() << std::endl;
  }
}
