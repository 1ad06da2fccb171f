#pragma once

#include <holdfast/json.hpp>

namespace holdfast::rpc {

/// Describes all methods as an OpenRPC document (https://spec.open-rpc.org): their names, parameters and
/// results from the table, the descriptions of parameters and the schemas of results from openrpc.json. For
/// `rpc.discover` and `holdfast rpc --schema`.
[[nodiscard]] Json openrpc_document();

}  // namespace holdfast::rpc
