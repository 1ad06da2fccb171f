#include "support/storage_calls.hpp"

#include <nlohmann/json.hpp>

#include "core/rfc3339.hpp"

namespace holdfast::test {

RecordKey record_key(std::string_view text) {
  return RecordKey::parse(text).value_or_throw();
}
RecordData record_data(std::string text) {
  return RecordData::parse(std::move(text)).value_or_throw();
}

std::string record_text(const RecordParts& parts) {
  nlohmann::ordered_json json;
  json["task"] = {{"createdAt", core::format_rfc3339(from_ms(parts.created_at))}};
  json["variables"] = {{"note", parts.note}};
  json["expiresAt"] = nullptr;
  if (parts.expires_at) json["expiresAt"] = core::format_rfc3339(from_ms(*parts.expires_at));
  return json.dump();
}

FencingToken token(std::uint64_t fence, std::string_view lock_key, std::string_view authority) {
  return {.authority = std::string(authority),
          .lock_key = std::string(lock_key),
          .fence = Fence::of(fence).value_or_throw()};
}

std::unique_ptr<Watch> watch_of(StorageBackend& backend, const RecordKey& key) {
  return runtime::await(backend, WatchRecord{.key = key}).value_or_throw();
}

bool is_unknown(const Error& error) {
  return error.code() == ErrorCode::NetworkTimeout && error.message().starts_with("outcome unknown");
}

std::optional<StoredRecord> get(StorageBackend& backend, std::string_view key) {
  return outcome(backend, GetRecord{.key = record_key(key)});
}

Written create(StorageBackend& backend, std::string_view key, std::string text) {
  return std::get<Written>(
      outcome(backend, CreateRecord{.key = record_key(key), .data = record_data(std::move(text))}));
}

Written put(StorageBackend& backend, std::string_view key, std::string text) {
  return std::get<Written>(
      outcome(backend, PutRecord{.key = record_key(key), .data = record_data(std::move(text))}));
}

bool remove(StorageBackend& backend, std::string_view key) {
  const auto answer = outcome(backend, RemoveRecord{.key = record_key(key)});
  if (std::holds_alternative<NoRecord>(answer)) return false;
  return std::get<Removed>(answer), true;
}

std::vector<std::string> tasks_of(StorageBackend& backend, std::string_view owner, ListOrder order,
                                  std::size_t page_size) {
  std::vector<std::string> tasks;
  std::optional<ListPosition> after;
  do {
    const auto page = outcome(
        backend,
        ListRecords{.prefix = std::string(owner) + ":", .after = after, .limit = page_size, .order = order});
    for (const auto& listed : page.records) tasks.emplace_back(listed.key.task());
    after = page.next;
  } while (after);
  return tasks;
}

std::vector<std::string> owners_of(StorageBackend& backend, std::size_t page_size) {
  std::vector<std::string> owners;
  std::string cursor;
  do {
    const auto page = outcome(backend, ListOwners{.cursor = cursor, .limit = page_size});
    owners.insert(owners.end(), page.owners.begin(), page.owners.end());
    cursor = page.cursor;
  } while (!cursor.empty());
  return owners;
}

}  // namespace holdfast::test
