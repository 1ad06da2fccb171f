#include <gtest/gtest.h>

#include <array>
#include <holdfast/error.hpp>
#include <set>
#include <string>

namespace holdfast {
namespace {

constexpr std::array lock_codes{ErrorCode::ServiceUnavailable,
                                ErrorCode::NetworkTimeout,
                                ErrorCode::RateLimited,
                                ErrorCode::AuthFailed,
                                ErrorCode::InvalidArgument,
                                ErrorCode::AcquisitionTimeout,
                                ErrorCode::Aborted,
                                ErrorCode::Internal};
constexpr std::array task_codes{ErrorCode::NotFound,         ErrorCode::InvalidTransition,
                                ErrorCode::NotReady,         ErrorCode::TooLarge,
                                ErrorCode::TooDeep,          ErrorCode::TtlTooLong,
                                ErrorCode::BadCursor,        ErrorCode::RequestKeyConflict,
                                ErrorCode::AnonymousOwner,   ErrorCode::QuotaExceeded,
                                ErrorCode::ConcurrentChange, ErrorCode::StaleFence,
                                ErrorCode::WrongLock};

TEST(ErrorCode, IsAStdErrorCodeOfItsOwnCategoryAndNeverASuccess) {
  std::set<std::string> names;
  const auto check = [&](ErrorCode code) {
    const std::error_code as_std = code;  // is_error_code_enum
    EXPECT_TRUE(as_std) << "a failure is not zero";
    EXPECT_EQ(&as_std.category(), &error_category());
    EXPECT_EQ(as_std.message(), to_string(code));
    EXPECT_TRUE(as_std == code);
    EXPECT_TRUE(names.insert(as_std.message()).second) << as_std.message();
  };
  for (const auto code : lock_codes) check(code);
  for (const auto code : task_codes) check(code);
  EXPECT_STREQ(error_category().name(), "holdfast");
}

TEST(ErrorCode, OfTasksIsToldFromThatOfLocks) {
  for (const auto code : lock_codes) EXPECT_FALSE(is_task_code(code)) << to_string(code);
  for (const auto code : task_codes) EXPECT_TRUE(is_task_code(code)) << to_string(code);
}

TEST(ErrorCode, EqualsTheConditionOfTheStandardLibraryThatMeansTheSame) {
  EXPECT_TRUE(make_error_code(ErrorCode::NetworkTimeout) == std::errc::timed_out);
  EXPECT_TRUE(make_error_code(ErrorCode::AcquisitionTimeout) == std::errc::timed_out);
  EXPECT_TRUE(make_error_code(ErrorCode::Aborted) == std::errc::operation_canceled);
  EXPECT_TRUE(make_error_code(ErrorCode::InvalidArgument) == std::errc::invalid_argument);
  EXPECT_TRUE(make_error_code(ErrorCode::AuthFailed) == std::errc::permission_denied);
  EXPECT_TRUE(make_error_code(ErrorCode::RateLimited) == std::errc::resource_unavailable_try_again);
  EXPECT_FALSE(make_error_code(ErrorCode::NotFound) == std::errc::no_such_file_or_directory);
}

TEST(ErrorCode, ANumberThatIsNoneIsNotTakenForAnother) {
  for (const int number : {0, -1, 256 + static_cast<int>(ErrorCode::NetworkTimeout)}) {
    const std::error_code made(number, error_category());
    EXPECT_EQ(made.message(), "unknown error " + std::to_string(number));
    EXPECT_FALSE(made == std::errc::timed_out);
  }
}

TEST(Error, CarriesItsCodeToCallersOfStdErrorCode) {
  const Error error(ErrorCode::StaleFence, "too late");
  EXPECT_EQ(error.std_code(), ErrorCode::StaleFence);
  EXPECT_FALSE(error.transient());
  EXPECT_TRUE(Error(ErrorCode::NetworkTimeout, "no answer").transient());
}

}  // namespace
}  // namespace holdfast
