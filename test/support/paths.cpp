#include "support/paths.hpp"

namespace holdfast::test {

std::string source_dir() {
  return HOLDFAST_SOURCE_DIR;
}

std::string vectors_dir() {
  return source_dir() + "/test/vectors";
}

std::string peer_program() {
  return HOLDFAST_TEST_PEER;
}

std::string holdfast_program() {
  return HOLDFAST_BINARY;
}

}  // namespace holdfast::test
