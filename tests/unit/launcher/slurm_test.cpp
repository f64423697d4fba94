// Slurm's lists of nodes, and what a step says of the node that a launcher is on.
#include "launcher/options/slurm.h"

#include <gmock/gmock.h>

#include <array>
#include <map>
#include <random>

#include "launcher/options/hostlist.h"

namespace lockstep::launcher {
namespace {

using testing::HasSubstr;
using Names = std::vector<std::string>;

TEST(Hostlist, IsExpandedAsSlurmDoes) {
  for (const auto& [text, names] : std::vector<std::pair<std::string, Names>>{
           {"ml-16-node-[001-002,004],ml-17-node-[001-003]",
            {"ml-16-node-001", "ml-16-node-002", "ml-16-node-004", "ml-17-node-001",
             "ml-17-node-002", "ml-17-node-003"}},
           {"b04-[09-10]", {"b04-09", "b04-10"}},
           {"nodeA,nodeB[001,003],nodeC", {"nodeA", "nodeB001", "nodeB003", "nodeC"}},
           {"c427-032,c429-002", {"c427-032", "c429-002"}},
           {"rack[0-1]n[8-11]",
            {"rack0n8", "rack0n9", "rack0n10", "rack0n11", "rack1n8", "rack1n9", "rack1n10",
             "rack1n11"}},
           {"a", {"a"}},
           {"n[1-2]-ib,n[1]", {"n1-ib", "n2-ib", "n1"}},
           {"[08-11]", {"08", "09", "10", "11"}},
           {"n[098-101]", {"n098", "n099", "n100", "n101"}},
           {"n[3,1,3]", {"n3", "n1", "n3"}},
           {"n[001-3]", {"n001", "n002", "n003"}},
           {"n[7-7]", {"n7"}},
           {"a[0-1][0-1]", {"a00", "a01", "a10", "a11"}},
           {"n[000000000000000001]", {"n000000000000000001"}}}) {
    const auto expanded = expand_hostlist(text, 100);
    ASSERT_TRUE(expanded.ok()) << expanded.error().message;
    EXPECT_EQ(*expanded, names) << text;
  }
}

TEST(Hostlist, WhatIsMalformedIsRefused) {
  for (const std::string text : {"",
                                 ",",
                                 "a,",
                                 ",a",
                                 "a,,b",
                                 "n[",
                                 "n[1",
                                 "n]1",
                                 "n[1]]",
                                 "n[[1]]",
                                 "n[]",
                                 "n[1,]",
                                 "n[,1]",
                                 "n[2-1]",
                                 "n[1-]",
                                 "n[-1]",
                                 "n[a-b]",
                                 "n[1-2-3]",
                                 "n[0x1]",
                                 "n[+1]",
                                 "a b",
                                 "a\n",
                                 "n[1 ,2]",
                                 "n[1,2",
                                 "n[9999999999999999999]",
                                 "n[1-99999999999999999999]"}) {
    const auto expanded = expand_hostlist(text, 100);
    ASSERT_FALSE(expanded.ok()) << text;
    EXPECT_EQ(expanded.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(expanded.error().message, HasSubstr("list of nodes"));
  }
}

TEST(Hostlist, WhatIsEnormousIsRefusedBeforeItIsMade) {
  const std::string nested = "n[0-999999999][0-999999999][0-999999999][0-999999999]";
  std::string many = "n[0-99]";
  for (int i = 0; i < 50; ++i) many += ",n[0-99]";
  for (const std::string& text : {std::string("n[0-100]"), std::string("n[1-999999999999999999]"),
                                  std::string("n[0-50,0-50]"), nested, many})
    EXPECT_THAT(expand_hostlist(text, 100).error().message, HasSubstr("more than 100 nodes"));
  EXPECT_EQ(expand_hostlist("n[0-49,0-49]", 100)->size(), 100u);
  EXPECT_THAT(expand_hostlist(std::string(256, 'n'), 100).error().message,
              HasSubstr("256 bytes, limit 255"));
  EXPECT_THAT(expand_hostlist(std::string((1u << 20) + 1, 'n'), 100).error().message,
              HasSubstr("limit 1048576"));
  EXPECT_LT(expand_hostlist(std::string(1u << 20, ','), 100).error().message.size(), 1000u);
}

// Any characters at all: refused, or no more names than asked for.
TEST(Hostlist, TakesAnyText) {
  std::mt19937 random(30);
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (auto left = random() % 16; left > 0; --left) text += "n01[]-,9"[random() % 8];
    const auto expanded = expand_hostlist(text, 50);
    if (!expanded.ok()) continue;
    ASSERT_LE(expanded->size(), 50u) << text;
    ASSERT_FALSE(expanded->empty()) << text;
  }
}

using Values = std::map<std::string, std::string>;

Environment environment(const Values& values) {
  return [values](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

// Two nodes of a job of three.
const Values kStep{{"SLURM_JOB_ID", "4711"},
                   {"SLURM_STEP_ID", "2"},
                   {"SLURM_STEP_NUM_NODES", "2"},
                   {"SLURM_STEP_NODELIST", "n[2-3]"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_JOB_NODELIST", "n[1-3]"},
                   {"SLURM_JOB_NUM_NODES", "3"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

Values but(const std::string& name, const std::string& value) {
  Values values = kStep;
  values[name] = value;
  return values;
}

TEST(SlurmNode, IsTheStepsNotTheJobs) {
  const auto node = node_from_slurm(environment(kStep));
  ASSERT_TRUE(node.ok()) << node.error().message;
  ASSERT_TRUE(node->has_value());
  EXPECT_EQ((*node)->nnodes, 2);
  EXPECT_EQ((*node)->node_rank, 1);
  EXPECT_EQ((*node)->nodes, (Names{"n2", "n3"}));
  EXPECT_EQ((*node)->run_id, "4711.2");
  EXPECT_EQ((*node)->port, 20'000 + (7 * 4711 + 2) % 10'000);
  EXPECT_EQ(slurm_without_a_step(environment(kStep)), "");
}

TEST(SlurmNode, ThePortIsInItsRangeForAnyJob) {
  const auto node = node_from_slurm(environment(but("SLURM_JOB_ID", "18446744073709551615")));
  ASSERT_TRUE(node.ok());
  EXPECT_EQ((*node)->port, 20'000 + (7 * 1615 + 2) % 10'000);
}

// srun sets no step; a batch script and an interactive shell have numbers above all steps.
TEST(SlurmNode, IsNoneOutsideAStep) {
  Values batch = kStep;
  batch.erase("SLURM_STEP_ID");
  for (const Values& values :
       {Values{}, batch, but("SLURM_STEP_ID", ""), but("SLURM_STEP_ID", "4294967290"),
        but("SLURM_STEP_ID", "4294967291")}) {
    const auto node = node_from_slurm(environment(values));
    ASSERT_TRUE(node.ok()) << node.error().message;
    EXPECT_FALSE(node->has_value());
  }
  EXPECT_THAT(slurm_without_a_step(environment(batch)), HasSubstr("has 3 nodes"));
  EXPECT_EQ(slurm_without_a_step(environment({})), "");
  batch["SLURM_JOB_NUM_NODES"] = "1";
  EXPECT_EQ(slurm_without_a_step(environment(batch)), "");
}

TEST(SlurmNode, ASecondTaskOnANodeIsRefused) {
  for (const Values& values :
       {but("SLURM_LOCALID", "1"), but("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        but("SLURM_STEP_TASKS_PER_NODE", "1,3"), but("SLURM_STEP_TASKS_PER_NODE", "1(x7),2")}) {
    const auto node = node_from_slurm(environment(values));
    ASSERT_FALSE(node.ok());
    EXPECT_EQ(node.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(node.error().message, HasSubstr("--ntasks-per-node=1"));
  }
}

TEST(SlurmNode, WhatDoesNotFitIsRefused) {
  for (const auto& [name, value, says] : std::vector<std::array<std::string, 3>>{
           {"SLURM_STEP_ID", "x", "SLURM_STEP_ID='x'"},
           {"SLURM_STEP_ID", "-1", "SLURM_STEP_ID='-1'"},
           {"SLURM_JOB_ID", "", "SLURM_JOB_ID is not"},
           {"SLURM_STEP_NUM_NODES", "3", "disagree"},
           {"SLURM_STEP_NUM_NODES", "", "SLURM_STEP_NUM_NODES is not"},
           {"SLURM_NODEID", "2", "disagree"},
           {"SLURM_STEP_NODELIST", "n[2-", "SLURM_STEP_NODELIST"},
           {"SLURM_STEP_NODELIST", "", "SLURM_STEP_NODELIST"},
           {"SLURM_STEP_NODELIST", "n[0-99999999]", "more than 65536 nodes"}}) {
    const auto node = node_from_slurm(environment(but(name, value)));
    ASSERT_FALSE(node.ok()) << name << "=" << value;
    EXPECT_THAT(node.error().message, HasSubstr(says));
  }
}

}  // namespace
}  // namespace lockstep::launcher
