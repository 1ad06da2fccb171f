#include "rpc/method.hpp"

namespace holdfast::cli::rpc {

std::span<const Method> task_methods() {
  return {};
}

}  // namespace holdfast::cli::rpc
