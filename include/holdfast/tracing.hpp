#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/export.hpp>
#include <holdfast/observer.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace holdfast {

using AttributeValue = std::variant<bool, std::int64_t, double, std::string>;

struct SpanAttribute {
  std::string_view name;
  AttributeValue value;
};

/// A moment, on both clocks that tracing systems want.
struct SpanTime {
  std::chrono::system_clock::time_point system;
  std::chrono::steady_clock::time_point steady;
};

/// An error, or the loss of a lock, is an error; that somebody else holds it is not.
enum class SpanStatus : std::uint8_t { ok, error };

/// One span of your tracing system, which began and will end now. It ends in the past, like all of them here.
class HOLDFAST_EXPORT Span {
 public:
  Span() = default;
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  virtual ~Span() = default;

  virtual void set_attribute(std::string_view name, const AttributeValue& value) = 0;
  virtual void end(SpanStatus status, const SpanTime& at) = 0;
};

struct SpanStart {
  /// "holdfast.lock.wait", "holdfast.lock.hold", "holdfast.lock.renew", "holdfast.connection.reconnect", or
  /// an operation of an engine as "holdfast.lock.acquire", "holdfast.task.put".
  std::string_view name;
  SpanTime at;
  /// What `context` returned where it began; null if nobody was asked.
  TraceContext parent;
  /// Never raw keys or lock ids.
  std::span<const SpanAttribute> attributes;
};

/// The way to a tracing system. A span is told when it is over, start and end together, on a thread that does
/// nothing else: what begins and ends a lock's spans are the threads that read the server's answers and renew
/// leases, where nobody else's code belongs. So a span can be no parent of others by being "the current one";
/// its own parent is found by `context`.
class HOLDFAST_EXPORT Tracer {
 public:
  Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  virtual ~Tracer() = default;

  /// The caller's current span, or whatever stands for it. Called where something begins on a thread of the
  /// caller's, inside his call, and so must be quick; what it throws is ignored. The value may end on any
  /// thread.
  [[nodiscard]] virtual TraceContext context() { return {}; }

  /// Runs on a thread of its own, as do the functions of the span; they may block or throw without disturbing
  /// an operation. Null: this span is not wanted.
  [[nodiscard]] virtual std::unique_ptr<Span> start(const SpanStart& start) = 0;
};

/// Tells the tracer of everything it observes. Beyond `max_queued`, spans are dropped. Its end waits until
/// the tracer has them all, unless that comes on a thread of the library; see Locks.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> make_tracing(std::shared_ptr<Tracer> tracer,
                                                                     std::size_t max_queued = 10'000);

}  // namespace holdfast
