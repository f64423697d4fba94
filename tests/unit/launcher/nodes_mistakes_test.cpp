// Options of several nodes that are more often a mistake than meant, or another run's.
#include <gmock/gmock.h>

#include <array>
#include <map>

#include "launcher/options/options.h"
#include "unit/launcher/nodes_options_parse.h"

namespace lockstep::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// By an operator for the job, in whose container this is started by hand, or by a worker of it.
TEST(NodesMistakes, OfAJobsVariablesAStandaloneRunAndAWorkersTakeNone) {
  const Variables job{{"PET_NNODES", "2"},           {"PET_NODE_RANK", "1"},
                      {"PET_MASTER_ADDR", "m"},      {"PET_MASTER_PORT", "7"},
                      {"PET_RDZV_ENDPOINT", "h:5"},  {"PET_RDZV_BACKEND", "c10d"},
                      {"PET_LOCAL_ADDR", "10.0.0.9"}};
  Variables workers = job;
  workers["TORCHELASTIC_RUN_ID"] = "none";
  for (const auto& of : std::array{parse({"--standalone"}, job), parse({}, workers)}) {
    ASSERT_TRUE(of.ok()) << of.error().message;
    EXPECT_EQ(of->nodes.nnodes, 1);
    EXPECT_EQ(of->master_addr, LaunchOptions().master_addr);
    EXPECT_EQ(of->master_port, 0);
    EXPECT_TRUE(of->notices.empty());
  }
  EXPECT_EQ(parse({"--master-port=9"}, workers)->master_port, 9) << "what is given holds";
  EXPECT_EQ(nodes(two({}), workers).endpoint_port, 29400);
}

TEST(NodesMistakes, AnEndpointWithoutNodesIsDoubted) {
  const auto notice = [](Words words) -> std::string {
    words.emplace_back("--rdzv-backend=c10d");
    const auto of = parse(words);
    EXPECT_TRUE(of.ok());
    return of.ok() && !of->notices.empty() ? of->notices.front() : "";
  };
  EXPECT_THAT(notice({"--rdzv-endpoint=elsewhere:29500"}),
              AllOf(HasSubstr("elsewhere"), HasSubstr("without --nnodes")));
  EXPECT_EQ(notice({"--rdzv-endpoint=elsewhere:29500", "--nnodes=1"}), "");
  for (const char* here : {"localhost:0", "127.0.0.1:29500", "[::1]", "0.0.0.0:1"})
    EXPECT_EQ(notice({"--rdzv-endpoint", here}), "") << here;
}

TEST(NodesMistakes, WhatNodesTellEachOtherHasALimit) {
  const std::string most(1024, 'x'), more(1025, 'x');
  for (const char* option : {"--rdzv-id", "--role"}) {
    EXPECT_TRUE(parse(two({option, most})).ok());
    EXPECT_THAT(refusal_of(two({option, more})),
                AllOf(HasSubstr(option), HasSubstr("1025 bytes"), HasSubstr("1024")));
    EXPECT_TRUE(parse({option, more}).ok()) << "one node";
  }
}

TEST(NodesMistakes, AJoinTimeoutBelowTheLimitIsSaid) {
  const auto notices = [](const std::string& conf) {
    const auto options = parse(two({"--rdzv-conf", conf}));
    EXPECT_TRUE(options->notices.empty()) << "a linked program's launcher heeds it alone";
    return options->notices_of_plain.size();
  };
  EXPECT_EQ(notices("join_timeout=4"), 1u);
  EXPECT_EQ(notices("join_timeout=15"), 0u);
  EXPECT_EQ(notices("join_timeout=4,keep_alive_interval=1"), 0u);
}

// srun lockstep run --node-rank $SLURM_PROCID: 0 for all, in a batch script's shell. It is doubted
// alone: a job may have an order of its own.
TEST(NodesMistakes, ARankThatIsZeroOnAnotherNodeOfAStepIsDoubted) {
  const auto of =
      [](const std::string& rank, const std::string& node, const std::string& task,
         Words more = {"--nnodes", kStep.at("SLURM_STEP_NUM_NODES"), "--rdzv-endpoint", "h"}) {
        Variables variables = kStep;
        variables["SLURM_NODEID"] = node;
        variables["SLURM_PROCID"] = task;
        more.insert(more.end(), {"--node-rank", rank});
        const auto options = parse(more, variables);
        EXPECT_EQ(options->nodes.node_rank, std::stoi(rank)) << "what is given by hand counts";
        return options->notices.empty() ? "" : options->notices.front();
      };
  for (const Words& more :
       {Words{"--nnodes", kStep.at("SLURM_STEP_NUM_NODES"), "--rdzv-endpoint", "h"}, Words{}})
    EXPECT_THAT(
        of("0", "1", "1", more),
        AllOf(HasSubstr("--node-rank 0"), HasSubstr("SLURM_NODEID=1"), HasSubstr("batch script")));
  EXPECT_EQ(of("0", "0", "0"), "");
  EXPECT_EQ(of("1", "1", "1"), "");
  EXPECT_EQ(of("1", "0", "0"), "") << "another order may be meant";
  EXPECT_EQ(of("0", "1", "0"), "") << "srun --distribution=arbitrary";
}

}  // namespace
}  // namespace lockstep::launcher
