#pragma once

#include <holdfast/open.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "view/snapshot.hpp"

namespace holdfast::cli::top {

/// Reads the whole store once. Throws the store's error as ServiceUnavailable if it does not answer.
[[nodiscard]] std::shared_ptr<const view::Snapshot> read_once(const Holdfast& store);
/// Prints two tables.
void print_plain(const view::Snapshot& snapshot);
/// Returns the snapshot as one object.
[[nodiscard]] nlohmann::ordered_json to_json(const view::Snapshot& snapshot);

}  // namespace holdfast::cli::top
