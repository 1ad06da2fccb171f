#include "rpc/protocol/error_text.hpp"

#include <string_view>

namespace holdfast::rpc {
namespace {

std::string_view option_for(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::AnonymousOwner:
      return "--allow-anonymous";
    case ErrorCode::TtlTooLong:
      return "--max-ttl";
    case ErrorCode::QuotaExceeded:
      return "--max-tasks; of a queue: --queue-limit, $HOLDFAST_QUEUE_MAX_TASKS";
    case ErrorCode::WrongLock:
      return "if that store lost its data: holdfast task rebind --from-authority";
    default:
      return {};
  }
}

}  // namespace

std::string text_of(const Error& error) {
  auto text = error.message();
  for (const std::string_view more : {option_for(error.code()), std::string_view(error.cause())}) {
    if (!more.empty()) text += " (" + std::string(more) + ")";
  }
  return text;
}

}  // namespace holdfast::rpc
