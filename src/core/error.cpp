#include <holdfast/error.hpp>

namespace holdfast {

struct [[gnu::visibility("hidden")]] Error::Detail {
  ErrorCode code;
  std::string message, cause, key, lock_id, from, to, holder, what;
  Effect effect = Effect::unknown;
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
    case ErrorCode::NotFound:
      return "NotFound";
    case ErrorCode::InvalidTransition:
      return "InvalidTransition";
    case ErrorCode::NotReady:
      return "NotReady";
    case ErrorCode::TooLarge:
      return "TooLarge";
    case ErrorCode::TooDeep:
      return "TooDeep";
    case ErrorCode::TtlTooLong:
      return "TtlTooLong";
    case ErrorCode::BadCursor:
      return "BadCursor";
    case ErrorCode::RequestKeyConflict:
      return "RequestKeyConflict";
    case ErrorCode::AnonymousOwner:
      return "AnonymousOwner";
    case ErrorCode::QuotaExceeded:
      return "QuotaExceeded";
    case ErrorCode::ConcurrentChange:
      return "ConcurrentChange";
    case ErrorCode::StaleFence:
      return "StaleFence";
    case ErrorCode::WrongLock:
      return "WrongLock";
  }
  return "Internal";
}

namespace {

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "holdfast"; }
  [[nodiscard]] std::string message(int code) const override {
    if (!is_known(code)) return "unknown error " + std::to_string(code);
    return std::string(to_string(static_cast<ErrorCode>(code)));
  }
  [[nodiscard]] std::error_condition default_error_condition(int code) const noexcept override {
    if (!is_known(code)) return {code, *this};
    switch (static_cast<ErrorCode>(code)) {
      case ErrorCode::NetworkTimeout:
      case ErrorCode::AcquisitionTimeout:
        return std::errc::timed_out;
      case ErrorCode::Aborted:
        return std::errc::operation_canceled;
      case ErrorCode::InvalidArgument:
        return std::errc::invalid_argument;
      case ErrorCode::AuthFailed:
        return std::errc::permission_denied;
      case ErrorCode::ServiceUnavailable:
      case ErrorCode::RateLimited:
        return std::errc::resource_unavailable_try_again;
      default:
        return {code, *this};
    }
  }

 private:
  /// A std::error_code can be made of any number.
  [[nodiscard]] static bool is_known(int code) noexcept {
    return code > 0 && code <= static_cast<int>(ErrorCode::WrongLock);
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(ErrorCode code) noexcept {
  return {static_cast<int>(code), error_category()};
}

int json_rpc_code(ErrorCode code) noexcept {
  constexpr int invalid_params = -32602;
  constexpr int internal_error = -32603;
  switch (code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::NotFound:
    case ErrorCode::InvalidTransition:
    case ErrorCode::NotReady:
    case ErrorCode::TooLarge:
    case ErrorCode::TooDeep:
    case ErrorCode::TtlTooLong:
    case ErrorCode::BadCursor:
    case ErrorCode::RequestKeyConflict:
    case ErrorCode::AnonymousOwner:
      return invalid_params;
    default:
      return internal_error;
  }
}

Error::Error(ErrorCode code, std::string message, std::string cause) {
  std::string what = std::string(to_string(code)) + ": " + message;
  if (!cause.empty()) what += " (" + cause + ")";
  detail_ = std::make_shared<const Detail>(
      Detail{code, std::move(message), std::move(cause), {}, {}, {}, {}, {}, std::move(what)});
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
const std::string& Error::from() const noexcept {
  return detail_->from;
}
const std::string& Error::to() const noexcept {
  return detail_->to;
}

const std::string& Error::holder() const noexcept {
  return detail_->holder;
}

Effect Error::effect() const noexcept {
  return detail_->effect;
}

template <class Change>
Error Error::changed(const Change& change) const {
  Detail detail = *detail_;
  change(detail);
  Error copy = *this;
  copy.detail_ = std::make_shared<const Detail>(std::move(detail));
  return copy;
}

Error Error::with(Effect effect) const {
  return changed([&](Detail& detail) { detail.effect = effect; });
}

Error Error::about(std::string_view key, std::string_view lock_id) const {
  return changed([&](Detail& detail) {
    detail.key = key;
    detail.lock_id = lock_id;
  });
}

Error Error::held_by(std::string_view holder) const {
  return changed([&](Detail& detail) { detail.holder = holder; });
}

Error Error::between(std::string_view from, std::string_view to) const {
  return changed([&](Detail& detail) {
    detail.from = from;
    detail.to = to;
  });
}

}  // namespace holdfast
