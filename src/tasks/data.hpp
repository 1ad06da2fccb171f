#pragma once

#include <holdfast/storage_types.hpp>
#include <string>
#include <utility>

namespace holdfast::tasks {

/// A record's text, to be stored. TooLarge if it is.
[[nodiscard]] inline Result<RecordData> record_data(std::string text) {
  if (text.size() > RecordData::max_bytes) {
    return Error(ErrorCode::TooLarge, "the task's record would be " + std::to_string(text.size()) +
                                          " bytes; at most " + std::to_string(RecordData::max_bytes) +
                                          " fit. Keep large results elsewhere, and refer to them");
  }
  return RecordData::parse(std::move(text));
}

}  // namespace holdfast::tasks
