#pragma once

#include "descriptor.hpp"
#include "keeper.hpp"

namespace holdfast::cli {

/// The keeper's whole life, in the forked child.
[[noreturn]] void run_keeper(Descriptor socket, const KeeperPlan& plan,
                             const InheritedSignals& inherited) noexcept;

}  // namespace holdfast::cli
