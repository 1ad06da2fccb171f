#pragma once

#include <holdfast/doctor.hpp>
#include <memory>

#include "engine/redis/client.hpp"
#include "engine/redis/doctor/observations.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/storage_layout.hpp"

namespace holdfast::redis {

/// Asks a server everything that `judge` wants to know. What it is refused is part of the answer; an Error
/// means that nobody answers any more.
[[nodiscard]] Result<Observations> observe(const std::shared_ptr<const Endpoint>& endpoint,
                                           const Layout& layout, const StorageLayout& tasks,
                                           const Progress& progress);

}  // namespace holdfast::redis
