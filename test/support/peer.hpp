#pragma once

#include <sys/types.h>

#include <filesystem>
#include <holdfast/lock_backend.hpp>
#include <memory>

namespace holdfast::test {

/// An engine in another process: every operation is carried out by a peer that opened `url` there.
/// Waiting is the peer's too. Ends with its last owner.
std::shared_ptr<LockBackend> open_in_another_process(const std::string& url);

}  // namespace holdfast::test
