#pragma once

#include <chrono>
#include <functional>

namespace holdfast::test {

/// Tries again until it is true; false if that does not happen in time. So a test fails by its assertion, not
/// by hanging, and waits no longer than it must.
[[nodiscard]] bool eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace holdfast::test
