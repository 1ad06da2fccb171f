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

/// The value of a span's attribute.
using AttributeValue = std::variant<bool, std::int64_t, double, std::string>;

/// A named attribute of a span.
struct SpanAttribute {
  /// Such as "holdfast.key_hash". Valid only during the call that passes it.
  std::string_view name;
  /// The value, owned by this object.
  AttributeValue value;
};

/// One moment on both clocks that tracing systems use.
struct SpanTime {
  /// Wall clock. The start and the end of a span are converted alike, so that their difference is right even
  /// if the wall clock was set in between.
  std::chrono::system_clock::time_point system;
  /// Steady clock.
  std::chrono::steady_clock::time_point steady;
};

/// The status of a span: an error after an error or the loss of a lock. A lock that is held by another holder
/// is not an error.
enum class SpanStatus : std::uint8_t {
  ok,    ///< no error; the attribute "holdfast.result" may still be "fail"
  error  ///< an error or a lost lock
};

/// Interface to one span of your tracing system. It is started and ended after the fact, with explicit times:
/// the activity is over when Tracer::start is called. It is used by one thread and destroyed after end().
class HOLDFAST_EXPORT Span {
 public:
  Span() = default;
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  virtual ~Span() = default;

  /// Adds an attribute: "holdfast.result", "holdfast.reason" or "error.type". Views are valid only during the
  /// call.
  virtual void set_attribute(std::string_view name, const AttributeValue& value) = 0;
  /// Ends the span at this time. Called once, last.
  virtual void end(SpanStatus status, const SpanTime& at) = 0;
};

/// What Tracer::start receives. All views are valid only during that call.
struct SpanStart {
  /// "holdfast.lock.wait", "holdfast.lock.hold", "holdfast.lock.renew", "holdfast.connection.reconnect", or
  /// an operation of an engine such as "holdfast.lock.acquire" or "holdfast.task.put".
  std::string_view name;
  /// When the span began.
  SpanTime at;
  /// What Tracer::context returned where the activity began; null if it was not called there.
  TraceContext parent;
  /// Attributes that are known from the start. Never raw keys or lock ids.
  std::span<const SpanAttribute> attributes;
};

/// Interface to a tracing system; docs/guide/telemetry.md has an adapter for OpenTelemetry.
///
/// A span is reported when it is over, start and end together, on a separate thread. The reason: the threads
/// that begin and end a lock's spans read the server's answers and renew leases, and a tracer that blocked
/// there could cost a holder its lock. So these spans cannot be "the current span" of your tracing system,
/// and your spans cannot be their children; their own parent is what `context` returned.
class HOLDFAST_EXPORT Tracer {
 public:
  Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  virtual ~Tracer() = default;

  /// Returns a value that represents the caller's current span. Called on the caller's thread, inside its
  /// call, where an activity begins: it must be quick. What it throws is ignored. The last reference to the
  /// value may be dropped on any thread.
  [[nodiscard]] virtual TraceContext context() { return {}; }

  /// Starts a span. Called on a separate thread, as are the functions of the span: they may block or throw
  /// without disturbing an operation. Returns null if this span is not wanted.
  [[nodiscard]] virtual std::unique_ptr<Span> start(const SpanStart& start) = 0;
};

/// Returns an observer that reports everything it observes to `tracer`; null if `tracer` is null. At most
/// `max_queued` spans wait for the tracer; further ones are dropped. The observer's destructor waits until
/// the tracer has received all spans, unless it runs on a thread of the library; see Locks. In a forked
/// child, spans are discarded.
[[nodiscard]] HOLDFAST_EXPORT std::shared_ptr<Observer> make_tracing(std::shared_ptr<Tracer> tracer,
                                                                     std::size_t max_queued = 10'000);

}  // namespace holdfast
