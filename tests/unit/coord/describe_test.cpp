// How two descriptions of what is about to run differ: by name, with both values and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coord/messages.h"
#include "rundir/manifest.h"

namespace lockstep::coord {
namespace {

using testing::AllOf;
using testing::HasSubstr;

message::Describe described(const std::string& key = "", const std::string& value = "") {
  rundir::RunManifest manifest;
  for (const char* each : {"dataset_fingerprint", "initial_weights_sha256", "lr", "torch"})
    manifest.set(each, "one");
  if (!key.empty()) manifest.set(key, value);
  message::Describe all;
  all.run_dir = "/run";
  all.manifest = manifest.json();
  all.parameters = "weight float32 [3]\nbias float32 [1]\n";
  return all;
}

std::string of_nodes(const message::Describe& first, const message::Describe& other) {
  return difference_of_nodes({0, bytes_of(first)}, {2, bytes_of(other)});
}

TEST(Describe, OfTwoNodesTheFirstDifferenceIsNamedWithBothValuesAndWhatToDo) {
  EXPECT_EQ(of_nodes(described(), described()), "");
  for (const auto& [key, remedy] : {std::pair("torch", "the same libtorch"),
                                    {"threads", "OMP_NUM_THREADS"},
                                    {"cpu_capability", "ATEN_CPU_CAPABILITY"},
                                    {"lr", "the same program and options"},
                                    {"dataset_fingerprint", "all samples, in the same order"},
                                    {"initial_weights_sha256", "torch::manual_seed()"}})
    EXPECT_THAT(
        of_nodes(described(key, "1"), described(key, "2")),
        AllOf(HasSubstr(std::string(key) + ": node 0 has '1', node 2 '2'. "), HasSubstr(remedy)));
  message::Describe more = described();
  more.virtual_workers = 6;
  EXPECT_THAT(of_nodes(described(), more), HasSubstr("virtual workers: node 0 has 1, node 2 6. "));
  more = described();
  more.parameters = "weight float32 [4]\nbias float32 [1]\n";
  EXPECT_THAT(of_nodes(described(), more),
              HasSubstr("parameters, line 1: node 0 has 'weight float32 [3]', node 2 'weight "
                        "float32 [4]'. "));
}

TEST(Describe, WhatFollowsFromAnotherDifferenceIsNotTold) {
  message::Describe other = described("seed", "4");
  other.manifest.replace(other.manifest.find("one"), 3, "two");  // the data, made of the seed
  EXPECT_THAT(of_nodes(described("seed", "3"), other), HasSubstr("seed: node 0 has '3'"));
  EXPECT_THAT(of_nodes(described(), described("seed", "4")),
              HasSubstr("seed: node 0 has 'absent', node 2 '4'"));
}

TEST(Describe, EachNodeHasItsRunDirectory) {
  message::Describe elsewhere = described();
  elsewhere.run_dir = "/elsewhere";
  EXPECT_EQ(of_nodes(described(), elsewhere), "");
  EXPECT_THAT(first_difference(described(), elsewhere), HasSubstr("run directory"));
}

TEST(Describe, WhatIsTooLongIsLeftOut) {
  message::Describe large = described("lr", "1"), other = described("lr", "2");
  large.parameters = other.parameters = std::string(kMostDescription, 'p');
  EXPECT_LE(bytes_of(large).size(), kMostDescription);
  EXPECT_THAT(of_nodes(large, other), HasSubstr("lr: node 0 has '1'"));
  large.manifest = std::string(kMostDescription, 'm');
  EXPECT_EQ(bytes_of(large), "");
  EXPECT_EQ(of_nodes(large, other), "");
  EXPECT_EQ(difference_of_nodes({0, "no description"}, {2, bytes_of(other)}), "");
}

}  // namespace
}  // namespace lockstep::coord
