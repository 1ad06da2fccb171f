#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "program.hpp"
#include "support/in_child.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr gid_t sharing = 64000;

struct SystemUser {
  uid_t id = 0;
  std::vector<gid_t> groups = {};
};

/// In a mount namespace of its own, where /var/lib and the list of groups are the test's.
bool enter_with(const fs::path& lib, const fs::path& groups) {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(lib.c_str(), "/var/lib", nullptr, MS_BIND, nullptr) == 0 &&
         mount(groups.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) == 0;
}

bool become(const SystemUser& user) {
  return setgroups(user.groups.size(), user.groups.data()) == 0 &&
         setresgid(user.id, user.id, user.id) == 0 && setresuid(user.id, user.id, user.id) == 0;
}

class SystemStore : public CliTest {
 protected:
  inline static const SystemUser root{};
  inline static const SystemUser alice{.id = 64001, .groups = {sharing}};
  inline static const SystemUser bob{.id = 64002, .groups = {sharing}};
  inline static const SystemUser outsider{.id = 64003};

  void SetUp() override {
    fs::create_directory(lib());
    set_groups("");
    if (geteuid() != 0 ||
        !in_child([this] { return enter_with(lib(), file("group")) && become(outsider); })) {
      GTEST_SKIP() << "no other users or mount namespace to be had (needs root); not covered here";
    }
    // Where these users can get at it, wherever the tree is.
    fs::copy_file(holdfast_program(), file("holdfast"));
    fs::permissions(file("holdfast"), fs::perms(0755));
    fs::permissions(directory(), fs::perms(01777));
  }

  void set_groups(const std::string& more) const { std::ofstream(file("group")) << "root:x:0:\n" << more; }
  void add_group() const { set_groups("holdfast:x:" + std::to_string(sharing) + ":\n"); }

  /// A shell whose `$HF` is `holdfast --system`.
  [[nodiscard]] std::unique_ptr<Program> shell(const SystemUser& user, const std::string& script) const {
    return std::make_unique<Program>(
        directory(), std::vector<std::string>{"sh", "-c", script},
        Program::Options{
            .environment = {"HF=" + file("holdfast").string() + " --system", "DIR=" + directory().string()},
            .before_exec = [&] {
              umask(077);
              if (!enter_with(lib(), file("group")) || !become(user)) _exit(126);
            }});
  }
  Finished run(const SystemUser& user, const std::string& script) const {
    return shell(user, script)->wait();
  }

  [[nodiscard]] fs::path lib() const { return file("lib"); }
  [[nodiscard]] fs::path store() const { return lib() / "holdfast"; }

  /// Owner, group and mode of a file of the store, or of its directory.
  [[nodiscard]] std::string look(const std::string& name) const {
    struct stat info{};
    if (stat((store() / name).c_str(), &info) != 0) return "absent";
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%u:%u %o", info.st_uid, info.st_gid, info.st_mode & 07777U);
    return text.data();
  }
};

TEST_F(SystemStore, RootMakesItForTheGroupIfThereIsOne) {
  add_group();
  const auto first = run(root, "$HF run k -- true");
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.err,
            "holdfast: created /var/lib/holdfast, the store of this machine, for root and its group\n");
  EXPECT_EQ(look(""), "0:64000 2770");
  EXPECT_EQ(look("holdfast.db"), "0:64000 660");
  EXPECT_EQ(look("holdfast.db-wake"), "0:64000 660") << "whatever the umask";
}

TEST_F(SystemStore, RootMakesItForItselfIfThereIsNoGroup) {
  const auto first = run(root, "$HF run k -- true");
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.err, "holdfast: created /var/lib/holdfast, the store of this machine, for root only\n");
  EXPECT_EQ(run(root, "$HF run k -- true").err, "") << "said once";
  EXPECT_EQ(look(""), "0:0 700");
  EXPECT_EQ(look("holdfast.db"), "0:0 600");
  const auto refused = run(alice, "$HF run k -- true");
  EXPECT_EQ(refused.code, 77);
  EXPECT_NE(refused.err.find("/var/lib/holdfast is for root only"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("groupadd"), std::string::npos) << refused.err;
}

TEST_F(SystemStore, OthersAreToldHowItIsMade) {
  const auto refused = run(alice, "$HF run k -- true");
  EXPECT_EQ(refused.code, 69);
  EXPECT_NE(
      refused.err.find("/var/lib/holdfast does not exist. As root: groupadd -f --system holdfast && install "
                       "-d -o root -g holdfast -m 2770 /var/lib/holdfast"),
      std::string::npos)
      << refused.err;
  EXPECT_EQ(look(""), "absent");
}

TEST_F(SystemStore, AnOutsiderIsToldWhichGroupToJoin) {
  add_group();
  ASSERT_EQ(run(root, "$HF run k -- true").code, 0);
  const auto refused = run(outsider, "$HF run k -- true");
  EXPECT_EQ(refused.code, 77);
  EXPECT_NE(refused.err.find("is for members of the group holdfast, and this process is not in it. As root: "
                             "usermod -aG holdfast USER"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
}

TEST_F(SystemStore, UsersOfTheGroupExcludeAndWakeEachOther) {
  add_group();
  ASSERT_EQ(run(root, "$HF run first -- true").code, 0);
  for (const auto& [holder, waiter] : {std::pair{alice, bob}, {bob, alice}, {root, alice}, {bob, root}}) {
    const auto names = std::to_string(holder.id) + "-" + std::to_string(waiter.id);
    auto held = shell(holder, "exec $HF run " + names + " -- sh -c 'echo $$ > $DIR/" + names +
                                  "; while [ ! -e $DIR/go-" + names + " ]; do sleep 0.01; done'");
    (void)pid_in(file(names));
    EXPECT_EQ(run(waiter, "$HF run -n " + names + " -- true").code, 75) << names;
    auto waiting = shell(waiter, "exec $HF run " + names + " -- true");
    const auto maps = "/proc/" + std::to_string(waiting->pid()) + "/maps";
    EXPECT_TRUE(eventually([&] { return contents(maps).find("holdfast.db-wake") != std::string::npos; }))
        << names << ": without it, it polls";
    std::ofstream(file("go-" + names)) << "\n";
    EXPECT_EQ(held->wait().code, 0) << names;
    EXPECT_EQ(waiting->wait().code, 0) << names;
  }
}

TEST_F(SystemStore, AMemberMayBeTheFirstToUseIt) {
  add_group();
  fs::create_directory(store());
  ASSERT_EQ(chown(store().c_str(), 0, sharing), 0);
  ASSERT_EQ(chmod(store().c_str(), 02770), 0);
  // Killed, so that all its files stay.
  auto program = shell(alice, "exec $HF run k -- sh -c 'echo $$ > $DIR/command; exec sleep 60'");
  (void)pid_in(file("command"));
  for (const char* name : {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "holdfast.db-wake"}) {
    EXPECT_EQ(look(name), "64001:64000 660") << name;
  }
  EXPECT_EQ(run(bob, "$HF run -n k -- true").code, 75);
  EXPECT_EQ(run(root, "$HF run -n k -- true").code, 75);
  for (const auto& entry : fs::directory_iterator(store())) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("holdfast.db")) << entry.path();
  }
  EXPECT_EQ(std::ranges::distance(fs::directory_iterator(store())), 4) << "nothing half-made stays behind";
}

TEST_F(SystemStore, WhatIsNotSafeIsRefusedEvenToRoot) {
  add_group();
  const auto refusal = [&] {
    const auto result = run(root, "$HF run k -- true");
    EXPECT_EQ(result.code, 69);
    return result.err;
  };
  fs::create_directory(store());
  ASSERT_EQ(chown(store().c_str(), alice.id, sharing), 0);
  EXPECT_NE(refusal().find("chown root /var/lib/holdfast"), std::string::npos);
  ASSERT_EQ(chown(store().c_str(), 0, sharing), 0);
  ASSERT_EQ(chmod(store().c_str(), 02777), 0);
  EXPECT_NE(refusal().find("chmod o-w"), std::string::npos);
  ASSERT_EQ(chmod(store().c_str(), 0770), 0);
  EXPECT_NE(refusal().find("chmod g+s"), std::string::npos);
  ASSERT_EQ(chmod(store().c_str(), 02770), 0);
  std::ofstream(store() / "holdfast.db") << "";
  EXPECT_NE(refusal().find("chgrp holdfast /var/lib/holdfast/holdfast.db* && chmod 660"), std::string::npos);
  fs::remove(store() / "holdfast.db");
  fs::create_symlink(file("elsewhere.db"), store() / "holdfast.db");
  EXPECT_NE(refusal().find("is not a regular file"), std::string::npos);
  EXPECT_FALSE(fs::exists(file("elsewhere.db")));
}

TEST_F(SystemStore, NestedCommandsAndTheEnvironmentNameItToo) {
  EXPECT_EQ(run(root, "$HF run k -- sh -c 'echo $HOLDFAST_URL'").out, "system:\n");
  EXPECT_EQ(run(root, "HOLDFAST_URL=system: $DIR/holdfast run k -- true").code, 0);
  EXPECT_EQ(look("holdfast.db"), "0:0 600");
  const auto both = run(root, "$HF --url sqlite: run k -- true");
  EXPECT_EQ(both.code, 64);
  EXPECT_NE(both.err.find("--system"), std::string::npos) << both.err;
}

TEST_F(SystemStore, DoctorSaysWhichStoreItIs) {
  add_group();
  const auto before = run(root, "$HF doctor");
  EXPECT_EQ(before.code, 0);
  EXPECT_NE(before.out.find("/var/lib/holdfast/holdfast.db does not exist yet"), std::string::npos)
      << before.out;
  EXPECT_NE(before.out.find("-> as root: groupadd"), std::string::npos) << before.out;
  EXPECT_EQ(look(""), "absent") << "the doctor only looks";
  ASSERT_EQ(run(root, "$HF run k -- true").code, 0);
  const auto after = run(alice, "$HF doctor");
  EXPECT_EQ(after.code, 0) << after.out << after.err;
  EXPECT_NE(after.out.find("ok    store        the store of this machine"), std::string::npos) << after.out;
  EXPECT_EQ(run(outsider, "$HF doctor").code, 77);
  const auto own = run(root, "HOME=$DIR XDG_STATE_HOME= $DIR/holdfast doctor");
  EXPECT_NE(own.out.find("this user's default store: other users of this machine"), std::string::npos)
      << own.out;
  EXPECT_NE(own.out.find("-> to share locks between users, use the URL system:"), std::string::npos)
      << own.out;
}

}  // namespace
}  // namespace holdfast::test
