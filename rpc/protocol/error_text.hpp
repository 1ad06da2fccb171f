#pragma once

#include <holdfast/error.hpp>
#include <string>

namespace holdfast::rpc {

/// The message of an error and its cause, for users of the command line and of its sidecar: where an option
/// of `holdfast` helps, it is named. The library's own messages fit any program and name no options.
[[nodiscard]] std::string text_of(const Error& error);

}  // namespace holdfast::rpc
