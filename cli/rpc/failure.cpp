#include "rpc/failure.hpp"

#include <nlohmann/json.hpp>
#include <system_error>

namespace holdfast::cli::rpc {

Json Failure::json() const {
  nlohmann::ordered_json object{{"code", code}, {"message", message}};
  if (!name.empty()) object["data"]["code"] = name;
  if (!from.empty()) object["data"]["from"] = from;
  if (!to.empty()) object["data"]["to"] = to;
  // A server's own words may be anything.
  return Json::unchecked(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

FailedRequest bad_params(std::string message) {
  return FailedRequest({.code = invalid_params,
                        .message = std::move(message),
                        .name = std::string(to_string(ErrorCode::InvalidArgument))});
}

Failure failure_of(const std::exception_ptr& exception) {
  const auto named = [](ErrorCode code, std::string message) {
    return Failure{
        .code = json_rpc_code(code), .message = std::move(message), .name = std::string(to_string(code))};
  };
  try {
    std::rethrow_exception(exception);
  } catch (const FailedRequest& error) {
    return error.failure();
  } catch (const Error& error) {
    auto message = error.message();
    if (!error.cause().empty()) message += " (" + error.cause() + ")";
    auto failure = named(error.code(), std::move(message));
    failure.from = error.from();
    failure.to = error.to();
    return failure;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::operation_canceled) {
      return named(ErrorCode::Aborted, "the request was cancelled");
    }
    return named(ErrorCode::Internal, std::string("unexpected: ") + error.what());
  } catch (const std::exception& error) {
    return named(ErrorCode::Internal, std::string("unexpected: ") + error.what());
  }
}

void rethrow(const std::exception_ptr& thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace holdfast::cli::rpc
