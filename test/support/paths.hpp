#pragma once

#include <string>

namespace holdfast::test {

/// Where things are on this machine. Only paths.cpp is compiled with these paths, so that a compiler cache
/// takes the same sources in another directory for the same.
[[nodiscard]] std::string source_dir();
/// `test/vectors`: known-good answers.
[[nodiscard]] std::string vectors_dir();
/// The other process of tests that need one.
[[nodiscard]] std::string peer_program();
/// The command line; empty in a build without it.
[[nodiscard]] std::string holdfast_program();

}  // namespace holdfast::test
