#pragma once

#include <holdfast/fenced_register.hpp>
#include <memory>
#include <string_view>

#include "runtime/runtime.hpp"

namespace holdfast {

/// State shared by the copies of one register.
struct [[gnu::visibility("hidden")]] FencedRegister::Place {
  /// Throws InvalidArgument if the name is not valid for a register.
  Place(std::shared_ptr<StorageBackend> in, std::shared_ptr<runtime::Runtime> on, std::string_view name);

  const std::shared_ptr<StorageBackend> storage;
  const std::shared_ptr<runtime::Runtime> threads;
  const RecordKey key;
};

}  // namespace holdfast
