#include <gtest/gtest.h>
#include <linux/magic.h>

#include "engine/sqlite/file_checks.hpp"

namespace holdfast::sqlite {
namespace {

TEST(SqliteFileChecks, KnowTheFileSystemsThatOtherMachinesShare) {
  EXPECT_EQ(unsafe_file_system(NFS_SUPER_MAGIC), "NFS");
  EXPECT_EQ(unsafe_file_system(CIFS_SUPER_MAGIC), "CIFS");
  EXPECT_EQ(unsafe_file_system(SMB2_SUPER_MAGIC), "SMB2");
  EXPECT_EQ(unsafe_file_system(V9FS_MAGIC), "9p");
  EXPECT_EQ(unsafe_file_system(FUSE_SUPER_MAGIC), "FUSE");
  EXPECT_EQ(unsafe_file_system(CEPH_SUPER_MAGIC), "Ceph");
  EXPECT_EQ(unsafe_file_system(AFS_SUPER_MAGIC), "AFS");
  EXPECT_EQ(unsafe_file_system(AFS_FS_MAGIC), "AFS");
  EXPECT_EQ(unsafe_file_system(OCFS2_SUPER_MAGIC), "OCFS2");
}

TEST(SqliteFileChecks, KnowANumberThatASignedFieldMadeNegative) {
  EXPECT_EQ(
      unsafe_file_system(static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(0xFF534D42)})),
      "CIFS");
}

TEST(SqliteFileChecks, AcceptLocalFileSystems) {
  for (const auto local :
       std::initializer_list<std::uint64_t>{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                            OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC}) {
    EXPECT_FALSE(unsafe_file_system(local).has_value()) << std::hex << local;
  }
}

TEST(SqliteFileChecks, FindAMountPointInMountinfo) {
  constexpr std::string_view mounts =
      "22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n"
      "90 28 254:0 /srv/a.db /data/with\\040blank/a.db rw,relatime - ext4 /dev/vda rw\n"
      "91 28 254:0 /x /data/last rw - ext4 /dev/vda rw";
  EXPECT_TRUE(is_listed_mount_point(mounts, "/sys"));
  EXPECT_TRUE(is_listed_mount_point(mounts, "/data/with blank/a.db"));
  EXPECT_TRUE(is_listed_mount_point(mounts, "/data/last"));
  EXPECT_FALSE(is_listed_mount_point(mounts, "/data"));
  EXPECT_FALSE(is_listed_mount_point(mounts, "/srv/a.db"));
  EXPECT_FALSE(is_listed_mount_point("", "/sys"));
  EXPECT_FALSE(is_listed_mount_point("garbage\n\n", "/sys"));
}

}  // namespace
}  // namespace holdfast::sqlite
