#pragma once

#include <chrono>
#include <holdfast/storage_backend.hpp>
#include <string>
#include <string_view>

#include "runtime/await.hpp"
#include "support/times.hpp"

/// Short forms of the storage contract's operations for tests: blocking, with sensible defaults. Where there
/// is no Result, a failure or a refusal that a test did not expect throws.
namespace holdfast::test {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

/// `owner:task`.
RecordKey record_key(std::string_view text);
RecordData record_data(std::string text);
/// What the engine reads of a record, and something to tell it by.
struct RecordParts {
  std::int64_t created_at = 0;
  std::optional<std::int64_t> expires_at = {};
  std::string note = {};
};
/// JSON of those parts.
std::string record_text(const RecordParts& parts);
FencingToken token(std::uint64_t fence, std::string_view lock_key = "lock",
                   std::string_view authority = "authority");

template <class Request>
Result<typename Request::Outcome> call(StorageBackend& backend, Request request, std::stop_token stop = {}) {
  return runtime::await(backend, std::move(request), std::move(stop));
}
/// Null if the engine cannot wake waiters.
std::unique_ptr<Watch> watch_of(StorageBackend& backend, const RecordKey& key);

/// An engine resent a request after a lost answer, and was refused: it cannot know whether its first copy was
/// carried out and another writer came after it.
bool is_unknown(const Error& error);

/// The outcome of any request. Retries an unknown one: as long as there is no other writer, the refusal was
/// right.
template <class Request>
auto outcome(StorageBackend& backend, const Request& request) {
  auto result = call(backend, request);
  for (int tries = 1; !result && is_unknown(result.error()) && tries < 100; ++tries) {
    result = call(backend, request);
  }
  return std::move(result).value_or_throw();
}

std::optional<StoredRecord> get(StorageBackend& backend, std::string_view key);
/// Creates the record, which must be absent.
Written create(StorageBackend& backend, std::string_view key, std::string text = "{}");
/// Writes the record, whether it exists or not.
Written put(StorageBackend& backend, std::string_view key, std::string text = "{}");
/// False if the record was absent.
bool remove(StorageBackend& backend, std::string_view key);
/// The names of an owner's records, all pages.
std::vector<std::string> tasks_of(StorageBackend& backend, std::string_view owner,
                                  ListOrder order = ListOrder::oldest_first, std::size_t page = 50);
/// All owners, all pages, as they come.
std::vector<std::string> owners_of(StorageBackend& backend, std::size_t page = 100);

/// Why the outcome (or decision) of a write is a refusal by its fence; null if it is another one.
template <class Outcome>
const FenceRefused* refused_with(ErrorCode why, const Outcome& outcome) {
  const auto* refused = std::get_if<FenceRefused>(&outcome);
  return refused != nullptr && refused->why == why ? refused : nullptr;
}

}  // namespace holdfast::test
