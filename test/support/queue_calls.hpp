#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/storage_calls.hpp"

/// Short forms of the queue operations for tests, as those of storage_calls.hpp.
namespace holdfast::test {

/// Creates a record of a queue, which must be absent.
inline Written enqueue(StorageBackend& backend, std::string_view key, const QueueTerms& terms = {},
                       std::string text = "{}") {
  return std::get<Written>(outcome(
      backend, CreateRecord{.key = record_key(key), .data = record_data(std::move(text)), .queue = terms}));
}

inline ClaimTerms claim_terms(std::size_t limit = 1, std::string worker = "worker",
                              milliseconds lease = 60s) {
  return {.worker = std::move(worker), .lease = lease, .limit = limit};
}

inline ClaimedRecords claim_next(StorageBackend& backend, const ClaimTerms& terms = claim_terms(),
                                 std::string owner = "q") {
  return outcome(backend, ClaimNext{.owner = std::move(owner), .terms = terms});
}
/// Claims one record, which must be there.
inline ClaimedRecord claim_one(StorageBackend& backend, const ClaimTerms& terms = claim_terms(),
                               std::string owner = "q") {
  auto result = claim_next(backend, terms, std::move(owner));
  if (result.claimed.size() != 1) throw std::runtime_error("no record was claimed");
  return std::move(result.claimed.front());
}
inline ClaimOutcome claim_record(StorageBackend& backend, std::string_view key,
                                 const ClaimTerms& terms = claim_terms()) {
  return outcome(backend, ClaimRecord{.key = record_key(key), .terms = terms});
}

/// The names of claimed records, in their order.
inline std::vector<std::string> names_of(const std::vector<ClaimedRecord>& records) {
  std::vector<std::string> names;
  for (const auto& record : records) names.emplace_back(record.key.task());
  return names;
}

/// The end of this claim; the data is written if there is any.
inline EndLease end_of(const ClaimedRecord& claimed, LeaseEnd end, std::optional<std::string> text = {},
                       milliseconds delay = {}) {
  EndLease request{.key = claimed.key,
                   .incarnation = claimed.record.incarnation,
                   .token = claimed.record.bound_to.value(),
                   .end = end,
                   .delay = delay};
  if (text) request.write = {record_data(*std::move(text)), {.version = claimed.record.version}};
  return request;
}
inline EndedLease finish(StorageBackend& backend, const ClaimedRecord& claimed,
                         std::string text = R"({"done":true})") {
  return outcome(backend, end_of(claimed, LeaseEnd::finished, std::move(text)));
}
inline EndedLease retry(StorageBackend& backend, const ClaimedRecord& claimed, milliseconds delay = {}) {
  return outcome(backend, end_of(claimed, LeaseEnd::retried, {}, delay));
}
inline EndedLease give_back(StorageBackend& backend, const ClaimedRecord& claimed) {
  return outcome(backend, end_of(claimed, LeaseEnd::given_back));
}

inline LeaseReference lease_of(const ClaimedRecord& claimed) {
  return {.task = std::string(claimed.key.task()),
          .incarnation = claimed.record.incarnation,
          .fence = claimed.record.bound_to.value().fence};
}
/// Renews the lease of this claim.
inline RenewedLease renew(StorageBackend& backend, const ClaimedRecord& claimed, milliseconds lease = 60s) {
  return outcome(backend, RenewLeases{.owner = std::string(claimed.key.owner()),
                                      .leases = {lease_of(claimed)},
                                      .lease = lease})
      .at(0);
}

inline QueueCounts count_queue(StorageBackend& backend, std::string owner = "q") {
  return outcome(backend, CountQueue{.owner = std::move(owner)});
}
inline QueueCounts pause(StorageBackend& backend, bool paused = true, std::string owner = "q") {
  return outcome(backend, ConfigureQueue{.owner = std::move(owner), .paused = paused});
}
inline QueueCounts limit_leases(StorageBackend& backend, std::size_t most, std::string owner = "q") {
  return outcome(backend, ConfigureQueue{.owner = std::move(owner), .max_leased = most});
}

/// The state of a record that is there and in a queue.
inline QueueState queue_state(StorageBackend& backend, std::string_view key) {
  return *get(backend, key).value().queue;
}

}  // namespace holdfast::test
