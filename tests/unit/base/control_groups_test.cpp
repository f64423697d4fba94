// Control groups of a process, by trees of files as the kernel shows them.
#include "base/control_groups.h"

#include <gtest/gtest.h>

#include "support/file_tree.h"

namespace lockstep {
namespace {

using test::FileTree;

std::vector<std::string> folders(const FileTree& tree, std::string_view process,
                                 std::string_view controller) {
  FileTree copy = tree;
  std::vector<std::string> found;
  for (const ControlGroup& group : ControlGroups(copy).of(process, controller))
    found.push_back(group.folder);
  return found;
}

using Folders = std::vector<std::string>;

TEST(ControlGroups, AreFoundWhereverTheyAreMounted) {
  FileTree tree;
  tree.files = {{"/proc/self/mountinfo",
                 "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                 "31 24 0:27 / /elsewhere/freeze\\040me rw - cgroup none rw,freezer\n"
                 "32 24 0:28 / /dev/cgroup/all rw - cgroup none rw,memory,cpu,pids\n"},
                {"/proc/self/cgroup", "3:freezer:/\n2:memory,cpu,pids:/own\n0::/own\n"},
                {"/proc/71/cgroup", "3:freezer:/a/b\n2:memory,cpu,pids:/job\n0::/\n"}};
  EXPECT_EQ(folders(tree, "self", "freezer"),
            (Folders{"/sys/fs/cgroup/unified/own", "/elsewhere/freeze me"}));
  EXPECT_EQ(folders(tree, "71", "freezer"),
            (Folders{"/sys/fs/cgroup/unified", "/elsewhere/freeze me/a/b"}));
  EXPECT_EQ(folders(tree, "71", "cpu"), (Folders{"/sys/fs/cgroup/unified", "/dev/cgroup/all/job"}));
  EXPECT_EQ(folders(tree, "71", "cpuset"), (Folders{"/sys/fs/cgroup/unified"}));
  EXPECT_EQ(folders(tree, "72", "cpu"), Folders{}) << "it is gone";
}

// A container: the mount shows the group that it is in, or one above that.
TEST(ControlGroups, AMountMayShowAGroupBelowTheTop) {
  FileTree tree;
  tree.files["/proc/self/mountinfo"] = "31 24 0:27 /docker/1f /cg rw - cgroup2 cgroup rw\n";
  for (const auto& [path, folder] : std::map<std::string, std::string>{
           {"/docker/1f", "/cg"},
           {"/docker/1f/", "/cg"},
           {"/docker/1f/below", "/cg/below"},
           {"/docker/1f2/x", "/cg/docker/1f2/x"},  // another one, whose name only begins so
           {"/../sibling", "/cg"},
           {"/..", "/cg"},
           {"/..named", "/cg/..named"},
           {"/", "/cg"}}) {
    tree.files["/proc/self/cgroup"] = "0::" + path + "\n";
    EXPECT_EQ(folders(tree, "self", "cpu"), Folders{folder}) << path;
  }
}

TEST(ControlGroups, WhatCannotBeReadIsNotThere) {
  FileTree tree;
  EXPECT_EQ(folders(tree, "self", "cpu"), Folders{});
  tree.files["/proc/self/mountinfo"] =
      "\n- - -\ngarbage\n30 24 0:26 / /cg rw - cgroup2\n30 24 0:26 / /cg rw - cgroup x rw,cpu";
  for (const char* text : {"", "\n", ":", "::", "x", "6:cpu", "0::"}) {
    tree.files["/proc/self/cgroup"] = text;
    EXPECT_EQ(folders(tree, "self", "cpu"), Folders{}) << text;
  }
  tree.files["/proc/self/cgroup"] = "1:cpu:/a:b";  // a path may have a colon
  EXPECT_EQ(folders(tree, "self", "cpu"), Folders{"/cg/a:b"});
}

TEST(ControlGroups, OfThisProcessAreThere) {
  const ControlGroups groups(posix_env());
  for (const ControlGroup& group : groups.of("self", "cpu"))
    EXPECT_TRUE(group.folder.starts_with(group.mount)) << group.folder;
}

}  // namespace
}  // namespace lockstep
