#include "engine/redis/conn/routing_fsm.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "engine/redis/conn/slot.hpp"
#include "engine/redis/wire/reply.hpp"

namespace holdfast::redis {
namespace {

/// Redirections in a row that are followed at once: two nodes that disagree send a call back and forth.
constexpr std::uint8_t most_hops = 5;
constexpr BootClock::duration first_pause = std::chrono::milliseconds(1);
constexpr std::uint8_t most_doublings = 6;

/// "3999 127.0.0.1:6381": the slot, and the node. An IPv6 address has no brackets.
bool read_place(std::string_view text, Redirection& redirection) {
  const auto space = text.find(' ');
  const auto colon = text.rfind(':');
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space) return false;
  const auto* const slot_end = text.data() + space;
  const auto* const begin = text.data();
  const auto slot = std::from_chars(begin, slot_end, redirection.slot);
  const auto* const end = begin + text.size();
  const auto port = std::from_chars(begin + colon + 1, end, redirection.address.port);
  redirection.address.host = text.substr(space + 1, colon - space - 1);
  if (redirection.address.host == no_name) {
    redirection.address.host.clear();
    redirection.is_known = false;
  }
  return slot.ec == std::errc() && slot.ptr == slot_end && redirection.slot < cluster_slots &&
         port.ec == std::errc() && port.ptr == end && redirection.address.port != 0;
}

}  // namespace

Redirection redirection_of(const redisReply& reply) {
  using Kind = Redirection::Kind;
  if (!is_error(reply)) return {};
  const auto text = text_of(reply);
  const auto after = [&](std::string_view word) { return text.substr(word.size()); };
  Redirection redirection;
  if (text.starts_with("MOVED ")) {
    if (read_place(after("MOVED "), redirection)) redirection.kind = Kind::moved;
  } else if (text.starts_with("ASK ")) {
    if (read_place(after("ASK "), redirection)) redirection.kind = Kind::ask;
  } else if (text.starts_with("TRYAGAIN")) {
    redirection.kind = Kind::try_again;
  } else if (text.starts_with("CLUSTERDOWN")) {
    redirection.kind = Kind::down;
  } else if (text.find("attempted to access a non local key in a cluster node") != std::string_view::npos) {
    redirection.kind = Kind::script_cut;
  }
  return redirection;
}

CallRoute::Step CallRoute::answered(const Redirection& redirection, double random) {
  using Kind = Redirection::Kind;
  switch (redirection.kind) {
    case Kind::none:
      return Deliver{};
    case Kind::moved:
      if (carries_epoch_ || !redirection.is_known || ++hops_ > most_hops) {
        hops_ = 0;
        return AfterRefresh{};
      }
      return SendTo{.announced = redirection.address, .asking = false};
    case Kind::ask:
      if (++hops_ > most_hops) return pause(random);
      return SendTo{.announced = redirection.address, .asking = true};
    case Kind::try_again:
    case Kind::script_cut:
      return pause(random);
    case Kind::down:
      hops_ = 0;
      return AfterRefresh{};
  }
  return Deliver{};
}

CallRoute::Pause CallRoute::pause(double random) noexcept {
  hops_ = 0;
  const auto whole = first_pause * (1U << pauses_);
  if (pauses_ < most_doublings) ++pauses_;
  const auto half = whole / 2;
  return {half + std::chrono::duration_cast<BootClock::duration>(half * random)};
}

MapRefresh::Ticket MapRefresh::wish(std::size_t preferred) noexcept {
  if (preferred != no_preference) preferred_ = preferred;
  // A question under way was asked before this wish.
  wished_ = std::max(wished_, asked_ + 1);
  return wished_;
}

MapRefresh::Ticket MapRefresh::wish_of_another() noexcept {
  of_another_ = true;
  return wish();
}

MapRefresh::Step MapRefresh::next(BootTime now, const std::vector<bool>& useful) noexcept {
  if (asking_ || wished_ <= answered_ || std::ranges::find(useful, true) == useful.end()) return Idle{never};
  if (now < not_before_) return Idle{not_before_};
  if (now - not_before_ > longest) delay_ = shortest;
  if (std::exchange(of_another_, false)) ++candidate_;
  if (preferred_ != no_preference) candidate_ = std::exchange(preferred_, no_preference);
  candidate_ %= useful.size();
  while (!useful[candidate_]) candidate_ = (candidate_ + 1) % useful.size();
  asking_ = true;
  asked_ = wished_;
  return Ask{candidate_};
}

void MapRefresh::succeeded(bool changed, BootTime now, double random) noexcept {
  asking_ = false;
  answered_ = asked_;
  failures_ = 0;
  if (changed) delay_ = shortest;
  // A map that says nothing new will not help the next call either, for a while.
  not_before_ = changed ? now : now + pause(random);
}

void MapRefresh::failed(BootTime now, std::size_t useful, double random) noexcept {
  asking_ = false;
  ++candidate_;
  // Each node once without a pause.
  if (++failures_ >= std::max<std::size_t>(useful, 1)) {
    failures_ = 0;
    not_before_ = now + pause(random);
  }
}

BootClock::duration MapRefresh::pause(double random) noexcept {
  const auto half = delay_ / 2;
  delay_ = std::min(delay_ * 2, longest);
  return half + std::chrono::duration_cast<BootClock::duration>(half * random);
}

}  // namespace holdfast::redis
