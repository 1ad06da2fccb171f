#include "doctor/proc_visibility.hpp"

#include <gtest/gtest.h>

namespace holdfast::test {
namespace {

using cli::hidden_processes;

const std::string mount_of_root = "21 1 0:19 / / rw,relatime shared:1 - ext4 /dev/vda rw\n";

std::string mount_of_proc(const std::string& options) {
  return "22 21 0:20 / /proc rw,nosuid,nodev,noexec,relatime shared:5 - proc proc " + options + "\n";
}

TEST(ProcVisibility, APlainProcHidesNothing) {
  EXPECT_FALSE(hidden_processes("", {}));
  EXPECT_FALSE(hidden_processes(mount_of_root, {}));
  for (const char* options : {"rw", "rw,hidepid=0", "rw,hidepid=off", "rw,gid=7"}) {
    EXPECT_FALSE(hidden_processes(mount_of_root + mount_of_proc(options), {})) << options;
  }
}

TEST(ProcVisibility, EachWayOfHidingIsNamedAsTheKernelNamesIt) {
  for (const std::string how : {"1", "2", "4", "noaccess", "invisible", "ptraceable"}) {
    const auto finding = hidden_processes(mount_of_root + mount_of_proc("rw,hidepid=" + how), {100});
    ASSERT_TRUE(finding) << how;
    EXPECT_EQ(finding->severity, Severity::note);
    EXPECT_NE(finding->found.find("hidepid=" + how + ":"), std::string::npos) << finding->found;
    EXPECT_NE(finding->advice.find("sudo holdfast run"), std::string::npos);
  }
}

TEST(ProcVisibility, TheGroupOfTheMountSeesAllUnlessItGoesByTrace) {
  EXPECT_FALSE(hidden_processes(mount_of_proc("rw,gid=7,hidepid=invisible"), {100, 7}));
  EXPECT_TRUE(hidden_processes(mount_of_proc("rw,gid=7,hidepid=invisible"), {100, 77}));
  EXPECT_TRUE(hidden_processes(mount_of_proc("rw,gid=7,hidepid=ptraceable"), {100, 7}));
}

TEST(ProcVisibility, TheMountOnTopCounts) {
  EXPECT_FALSE(hidden_processes(mount_of_proc("rw,hidepid=2") + mount_of_proc("rw"), {}));
  EXPECT_TRUE(hidden_processes(mount_of_proc("rw") + mount_of_proc("rw,hidepid=2"), {}));
  EXPECT_FALSE(hidden_processes("23 21 0:20 / /proc/sys rw - proc proc rw,hidepid=2\n", {}));
}

}  // namespace
}  // namespace holdfast::test
