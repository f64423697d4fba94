// CPU quotas, by trees of files as the kernel shows them.
#include "base/cpus.h"

#include <gtest/gtest.h>

#include <map>

#include "support/file_tree.h"

namespace lockstep {
namespace {

using test::FileTree;

constexpr const char* kV2 =
    "24 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(CpuQuota, OfV2IsTheSmallestOfAllAncestors) {
  FileTree tree;
  tree.files = {{"/proc/self/mountinfo", kV2},
                {"/proc/self/cgroup", "0::/a.slice/b/c\n"},
                {"/sys/fs/cgroup/a.slice/b/c/cpu.max", "max 100000\n"},
                {"/sys/fs/cgroup/a.slice/b/cpu.max", "150000 100000\n"},
                {"/sys/fs/cgroup/a.slice/cpu.max", "400000 100000\n"}};
  EXPECT_EQ(cpu_quota(tree), 1.5);
  tree.files["/sys/fs/cgroup/a.slice/cpu.max"] = "50000 200000\n";
  EXPECT_EQ(cpu_quota(tree), 0.25);
  tree.files["/sys/fs/cgroup/cpu.max"] = "10000 100000\n";  // a container's own root
  EXPECT_EQ(cpu_quota(tree), 0.1);
}

TEST(CpuQuota, OfV1IsTheSmallestOfAllAncestors) {
  FileTree tree;
  tree.files = {{"/proc/self/mountinfo", kV1},
                {"/proc/self/cgroup",
                 "9:name=systemd:/\n3:cpuset:/set\n2:cpu,cpuacct:/docker/12:ab/job\n0::/x\n"},
                {"/sys/fs/cgroup/cpu,cpuacct/docker/12:ab/job/cpu.cfs_quota_us", "-1\n"},
                {"/sys/fs/cgroup/cpu,cpuacct/docker/12:ab/job/cpu.cfs_period_us", "100000\n"},
                {"/sys/fs/cgroup/cpu,cpuacct/docker/12:ab/cpu.cfs_quota_us", "250000\n"},
                {"/sys/fs/cgroup/cpu,cpuacct/docker/12:ab/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(cpu_quota(tree), 2.5);
  tree.files["/sys/fs/cgroup/cpuset/set/cpu.cfs_quota_us"] = "1000\n";  // another hierarchy's
  EXPECT_EQ(cpu_quota(tree), 2.5);
}

TEST(CpuQuota, AContainerSeesItsOwnGroupAsTheRoot) {
  FileTree tree;
  tree.files = {
      {"/proc/self/mountinfo",
       "32 31 0:29 /docker/1f /sys/fs/cgroup/my\\040cpu ro - cgroup cgroup rw,cpuacct,cpu\n"},
      {"/proc/self/cgroup", "2:cpuacct,cpu:/docker/1f\n"},
      {"/sys/fs/cgroup/my cpu/cpu.cfs_quota_us", "120000\n"},
      {"/sys/fs/cgroup/my cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(cpu_quota(tree), 1.2);
  tree.files["/proc/self/cgroup"] = "2:cpuacct,cpu:/docker/1f/below\n";
  EXPECT_EQ(cpu_quota(tree), 1.2);
  tree.files["/proc/self/cgroup"] = "2:cpuacct,cpu:/../elsewhere\n";  // moved out of what is seen
  EXPECT_EQ(cpu_quota(tree), 1.2);
}

TEST(CpuQuota, WhatSaysNothingIsNoLimit) {
  FileTree tree;
  EXPECT_EQ(cpu_quota(tree), std::nullopt);  // no /proc
  tree.files = {{"/proc/self/mountinfo", std::string(kV2) + "garbage\n\n- - -\n"},
                {"/proc/self/cgroup", "0::/a\nno colon\n::\n"}};
  EXPECT_EQ(cpu_quota(tree), std::nullopt);
  for (const char* text : {"max 100000\n", "", "100000\n", "-1 100000\n", "100000 0\n", "x y\n"}) {
    tree.files["/sys/fs/cgroup/a/cpu.max"] = text;
    EXPECT_EQ(cpu_quota(tree), std::nullopt) << text;
  }
}

TEST(CpusForWorkers, AreTheQuotaRoundedUpAndNoMoreThanThereAre) {
  FileTree tree;
  tree.files = {{"/proc/self/mountinfo", kV2}, {"/proc/self/cgroup", "0::/a\n"}};
  EXPECT_EQ(cpus_for_workers(tree), usable_cpus());
  for (const auto& [text, workers] : std::map<std::string, int>{
           {"1000 100000", 1}, {"100000 100000", 1}, {"99999999 100000", usable_cpus()}}) {
    tree.files["/sys/fs/cgroup/a/cpu.max"] = text;
    EXPECT_EQ(cpus_for_workers(tree), workers) << text;
  }
  tree.files["/sys/fs/cgroup/a/cpu.max"] = "100001 100000";
  EXPECT_EQ(cpus_for_workers(tree), std::min(2, usable_cpus()));
}

TEST(CpuQuota, TheRealFilesAreRead) {
  const auto text = posix_env().read("/proc/self/cgroup", 1 << 20);  // its size is said to be 0
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_NE(text->find(':'), std::string::npos);
}

}  // namespace
}  // namespace lockstep
