#include "tasks/creation.hpp"

#include <gtest/gtest.h>

namespace holdfast::tasks {
namespace {

TEST(QueueTaskCreation, RefusesARequesterThatIsNoTextOfAnEnvironmentVariable) {
  constexpr std::string_view with_nul("bob\0EVIL=1", 10);
  for (const auto requester : {with_nul, std::string_view("\xFF")}) {
    const auto added = Creation::prepare("%queue%25q", NewQueueTask{.requester = requester}, {}, {});
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code(), ErrorCode::InvalidArgument);
  }
  EXPECT_TRUE(Creation::prepare("%queue%25q", NewQueueTask{.requester = "bob=\n"}, {}, {}));
}

TEST(QueueTaskCreation, ARetryDoesNotCopySuchARequester) {
  Task failed;
  failed.id = "t";
  failed.owner = "%queue%25q";
  EXPECT_TRUE(Creation::prepare_retry(failed, {}, {}));
  failed.requester = std::string("bob\0EVIL=1", 10);
  const auto retried = Creation::prepare_retry(failed, {}, {});
  ASSERT_FALSE(retried);
  EXPECT_EQ(retried.error().code(), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace holdfast::tasks
