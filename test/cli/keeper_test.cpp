#include "process/keeper.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace holdfast::test {
namespace {

using cli::Keeper;
using posix::Descriptor;

TEST(KeeperEnvironment, OneVariableNeverBecomesTwo) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor theirs(ends[1]);
  auto keeper = Keeper::of(getpid(), Descriptor(ends[0]));  // no child, so it is not waited for
  std::array<char, 1> packet{};
  const auto sent = [&] { return recv(theirs.get(), packet.data(), packet.size(), MSG_DONTWAIT) > 0; };
  try {
    keeper.start({}, {"A=1", std::string("B=2\0EVIL=3", 10)}, false);
    ADD_FAILURE() << "it was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_NE(error.message().find("variable B of"), std::string::npos) << error.message();
  }
  EXPECT_FALSE(sent());
  keeper.start({}, {"A=1", "B=2"}, false);
  EXPECT_TRUE(sent());
}

}  // namespace
}  // namespace holdfast::test
