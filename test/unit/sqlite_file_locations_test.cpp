#include "engine/sqlite/file_locations.hpp"

#include <gtest/gtest.h>

namespace holdfast::test {
namespace {

using sqlite::objection_to_directory;
using sqlite::objection_to_file;

constexpr gid_t sharing = 4'000'000'000;  // without a name

struct stat entry(mode_t mode, uid_t owner = 0, gid_t group = sharing) {
  struct stat info{};
  info.st_mode = mode;
  info.st_uid = owner;
  info.st_gid = group;
  return info;
}

std::string to_directory(const struct stat& info) {
  return objection_to_directory("/d", info).value_or("none");
}
std::string to_file(const struct stat& info, const struct stat& directory) {
  return objection_to_file("/d/f", info, directory).value_or("none");
}

TEST(SystemFile, ADirectoryMustBeRootsAndOfItsGroup) {
  EXPECT_EQ(to_directory(entry(S_IFDIR | 02770)), "none");
  EXPECT_EQ(to_directory(entry(S_IFDIR | 0700, 0, 0)), "none") << "root's alone";
  EXPECT_EQ(to_directory(entry(S_IFDIR | 0755, 0, 0)), "none") << "others may look at its names, no more";
  EXPECT_NE(to_directory(entry(S_IFDIR | 02770, 1000)).find("uid 1000"), std::string::npos);
  EXPECT_NE(to_directory(entry(S_IFDIR | 02777)).find("chmod o-w /d"), std::string::npos);
  EXPECT_NE(to_directory(entry(S_IFDIR | 01777)).find("chmod o-w /d"), std::string::npos);
  EXPECT_NE(to_directory(entry(S_IFDIR | 0770)).find("chmod g+s /d"), std::string::npos);
  for (const auto type : {mode_t{S_IFREG}, mode_t{S_IFLNK}}) {
    EXPECT_NE(to_directory(entry(type | 0777)).find("install -d -o root -g holdfast -m 2770 /d"),
              std::string::npos);
  }
}

TEST(SystemFile, AFileIsItsDirectorysGroupsWhereThatSharesIt) {
  const auto shared = entry(S_IFDIR | 02770), roots = entry(S_IFDIR | 0700, 0, 0);
  EXPECT_EQ(to_file(entry(S_IFREG | 0660, 1000), shared), "none") << "of any member";
  EXPECT_NE(to_file(entry(S_IFREG | 0660, 0, 0), shared).find("chgrp 4000000000 /d/f* && chmod 660 /d/f*"),
            std::string::npos);
  for (const mode_t mode : {0600U, 0640U, 0666U}) {
    EXPECT_NE(to_file(entry(S_IFREG | mode), shared), "none") << mode;
  }
  EXPECT_EQ(to_file(entry(S_IFREG | 0600, 0, 0), roots), "none");
  EXPECT_NE(to_file(entry(S_IFLNK | 0777), shared), "none") << "a member could lead root anywhere";
  EXPECT_NE(to_file(entry(S_IFLNK | 0777), roots), "none");
}

}  // namespace
}  // namespace holdfast::test
