#include <holdfast/error.hpp>

namespace holdfast {

struct Error::Detail {
  ErrorCode code;
  std::string message, cause, key, lock_id, what;
};

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::ServiceUnavailable:
      return "ServiceUnavailable";
    case ErrorCode::NetworkTimeout:
      return "NetworkTimeout";
    case ErrorCode::RateLimited:
      return "RateLimited";
    case ErrorCode::AuthFailed:
      return "AuthFailed";
    case ErrorCode::InvalidArgument:
      return "InvalidArgument";
    case ErrorCode::AcquisitionTimeout:
      return "AcquisitionTimeout";
    case ErrorCode::Aborted:
      return "Aborted";
    case ErrorCode::Internal:
      return "Internal";
  }
  return "Internal";
}

Error::Error(ErrorCode code, std::string message, std::string cause) {
  std::string what = std::string(to_string(code)) + ": " + message;
  if (!cause.empty()) what += " (" + cause + ")";
  detail_ = std::make_shared<const Detail>(
      Detail{code, std::move(message), std::move(cause), {}, {}, std::move(what)});
}

ErrorCode Error::code() const noexcept {
  return detail_->code;
}
const char* Error::what() const noexcept {
  return detail_->what.c_str();
}
const std::string& Error::message() const noexcept {
  return detail_->message;
}
const std::string& Error::cause() const noexcept {
  return detail_->cause;
}
const std::string& Error::key() const noexcept {
  return detail_->key;
}
const std::string& Error::lock_id() const noexcept {
  return detail_->lock_id;
}

Error Error::about(std::string_view key, std::string_view lock_id) const {
  Detail detail = *detail_;
  detail.key = key;
  detail.lock_id = lock_id;
  Error copy = *this;
  copy.detail_ = std::make_shared<const Detail>(std::move(detail));
  return copy;
}

}  // namespace holdfast
