#include "support/calls.hpp"

#include "locks/await.hpp"

namespace holdfast::test {
namespace {
std::optional<LockKey> maybe_key(const std::optional<std::string>& text) {
  return text ? std::optional(key(*text)) : std::nullopt;
}
}  // namespace

LockKey key(std::string_view text) {
  return LockKey::parse(text).value_or_throw();
}
Ttl ttl(milliseconds length) {
  return Ttl::of(length).value_or_throw();
}

Result<AcquireOutcome> try_acquire(LockBackend& backend, AcquireRequest request, std::stop_token stop) {
  return locks::acquire(backend, std::move(request), std::move(stop));
}

Result<AcquireOutcome> try_acquire(LockBackend& backend, const LockId& id, std::string_view name,
                                   milliseconds length) {
  return try_acquire(backend,
                     {.id = id, .key = key(name), .ttl = ttl(length), .durability = Durability::process});
}

std::optional<Granted> acquire(LockBackend& backend, const LockId& id, std::string_view name,
                               milliseconds length) {
  const auto outcome = try_acquire(backend, id, name, length).value_or_throw();
  const auto* granted = std::get_if<Granted>(&outcome);
  return granted != nullptr ? std::optional(*granted) : std::nullopt;
}

Result<ReleaseOutcome> try_release(LockBackend& backend, ReleaseRequest request, std::stop_token stop) {
  return locks::release(backend, std::move(request), std::move(stop));
}

std::optional<Absence> release(LockBackend& backend, const LockId& id, std::optional<std::string> name) {
  const auto outcome =
      try_release(backend, {.lock = {.id = id, .key = maybe_key(name)}, .durability = Durability::process})
          .value_or_throw();
  const auto* absence = std::get_if<Absence>(&outcome);
  return absence != nullptr ? std::optional(*absence) : std::nullopt;
}

Result<ExtendOutcome> try_extend(LockBackend& backend, ExtendRequest request, std::stop_token stop) {
  return locks::extend(backend, std::move(request), std::move(stop));
}

std::variant<Extended, Absence> extend(LockBackend& backend, const LockId& id,
                                       std::optional<std::string> name, milliseconds length) {
  return try_extend(backend, {.lock = {.id = id, .key = maybe_key(name)},
                              .ttl = ttl(length),
                              .durability = Durability::process})
      .value_or_throw();
}

bool is_locked(LockBackend& backend, std::string_view name) {
  return locks::await<bool>(backend,
                            [&](auto done) { backend.is_locked({.key = key(name)}, {}, std::move(done)); })
      .value_or_throw();
}

std::optional<LockRecord> lookup(LockBackend& backend, std::string_view name) {
  return locks::lookup(backend, {.what = key(name)}).value_or_throw();
}

std::optional<LockRecord> lookup(LockBackend& backend, const LockId& id) {
  return locks::lookup(backend, {.what = id}).value_or_throw();
}

Result<LockPage> list(LockBackend& backend, ListRequest request) {
  return locks::await<LockPage>(backend,
                                [&](auto done) { backend.list(std::move(request), {}, std::move(done)); });
}

}  // namespace holdfast::test
