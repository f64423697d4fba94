// How launchers of several nodes are told of each other: torchrun's forms, its variables and a step
// of Slurm. Three launchers on this machine.
#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fault/plain_support.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kNodes = 3;
using Strings = std::array<std::string, kNodes>;

class NodesOptions : public Plain {
 protected:
  using AllWords = std::array<Words, kNodes>;
  using AllVariables = std::array<Child::Variables, kNodes>;

  // The same words for all nodes, with the number of each in the place of "#".
  static AllWords all(const Words& words) {
    AllWords result;
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::string word : words) {
        if (word == "#") word = std::to_string(node);
        result[node].push_back(std::move(word));
      }
    return result;
  }
  // What the workers tell, by node. All end well.
  Strings launch_all(const AllWords& options, const AllVariables& variables = {},
                     const std::string& tell = "$GROUP_RANK $RANK/$WORLD_SIZE $MASTER_PORT") {
    std::array<std::unique_ptr<Child>, kNodes> launchers;
    for (std::size_t node = 0; node < kNodes; ++node)
      launchers[node] = std::make_unique<Child>(
          command_of(options[node], {"/bin/sh", "-c", "echo " + tell}), variables[node]);
    Strings told;
    for (std::size_t node = 0; node < kNodes; ++node) {
      const Outcome outcome = launchers[node]->wait(30s);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      told[node] = outcome.out;
    }
    return told;
  }
  const std::string port_ = std::to_string(free_port());
};

TEST_F(NodesOptions, TheMastersAddressAndARankForEach) {
  EXPECT_THAT(
      launch_all(all({"--nnodes", "3", "--node-rank", "#", "--master-addr", "127.0.0.1",
                      "--master-port", port_})),
      ElementsAre("0 0/3 " + port_ + "\n", "1 1/3 " + port_ + "\n", "2 2/3 " + port_ + "\n"));
}

TEST_F(NodesOptions, AnEndpointAlone) {
  const auto told = launch_all(all({"--nnodes=3:3", "--rdzv-backend=c10d",
                                    "--rdzv-endpoint=localhost:" + port_, "--rdzv-id=x"}),
                               {}, "$GROUP_RANK $MASTER_PORT $TORCHELASTIC_RUN_ID");
  std::set<int> ranks, ports;
  for (const std::string& text : told) {
    std::istringstream line(text);
    int rank = -1, port = -1;
    std::string id;
    line >> rank >> port >> id;
    ranks.insert(rank);
    ports.insert(port);
    EXPECT_EQ(id, "x");
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(ports.size(), 1U);
  EXPECT_FALSE(ports.contains(std::stoi(port_))) << "c10d has a free one for the workers";
}

TEST_F(NodesOptions, APortOfItsOwnForTheStore) {
  const std::string store = std::to_string(free_port());
  for (const std::string backend : {"static", "c10d"})
    EXPECT_THAT(
        launch_all(all({"--nnodes=3", "--node-rank", "#", "--rdzv-endpoint", "127.0.0.1:" + port_,
                        "--store-port", store, "--rdzv-backend", backend})),
        ElementsAre("0 0/3 " + store + "\n", "1 1/3 " + store + "\n", "2 2/3 " + store + "\n"));
}

// With the workers' numbers other launchers' operators set, which are not looked at.
TEST_F(NodesOptions, AnOperatorsVariables) {
  AllVariables variables;
  for (std::size_t node = 0; node < kNodes; ++node)
    variables[node] = {{"PET_NNODES", "3"},
                       {"PET_NODE_RANK", std::to_string(2 - node)},
                       {"PET_MASTER_PORT", port_},
                       {"PET_MASTER_ADDR", "localhost"},
                       {"RANK", "7"},
                       {"WORLD_SIZE", "16"},
                       {"MASTER_ADDR", "nowhere"},
                       {"MASTER_PORT", "1"}};
  EXPECT_THAT(
      launch_all({}, variables),
      ElementsAre("2 2/3 " + port_ + "\n", "1 1/3 " + port_ + "\n", "0 0/3 " + port_ + "\n"));
}

TEST_F(NodesOptions, AStepOfSlurm) {
  // Its port is of the job's number: one for which it is free.
  const int port = 20'000 + std::stoi(port_) % 10'000;
  int job = 1;
  while (20'000 + (7 * job + 3) % 10'000 != port) ++job;
  AllVariables variables;
  for (std::size_t node = 0; node < kNodes; ++node)
    variables[node] = {
        {"SLURM_JOB_ID", std::to_string(job)},  {"SLURM_STEP_ID", "3"},
        {"SLURM_STEP_NUM_NODES", "3"},          {"SLURM_STEP_NODELIST", "localhost,n[2-3]"},
        {"SLURM_NODEID", std::to_string(node)}, {"SLURM_LOCALID", "0"},
        {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}};
  const std::string rest = std::to_string(port) + " " + std::to_string(job) + ".3\n";
  EXPECT_THAT(launch_all({}, variables, "$GROUP_RANK $MASTER_PORT $TORCHELASTIC_RUN_ID"),
              ElementsAre("0 " + rest, "1 " + rest, "2 " + rest));
  // With --nnodes and an endpoint the rank is the step's.
  EXPECT_THAT(
      launch_all(all({"--nnodes", "3", "--rdzv-endpoint", "localhost:" + port_}), variables),
      ElementsAre(StartsWith("0 "), StartsWith("1 "), StartsWith("2 ")));
}

TEST_F(NodesOptions, WhoIsSaidToHaveTheEndpointLeads) {
  AllWords options = all({"--nnodes=3", "--rdzv-endpoint=localhost:" + port_});
  for (std::size_t node = 0; node < kNodes; ++node)
    options[node].push_back(std::string("--rdzv-conf=is_host=") + (node == 1 ? "true" : "false"));
  EXPECT_THAT(launch_all(options)[1], StartsWith("0 0/3 "));
}

TEST_F(NodesOptions, LinesAndFoldersOfSeveralNodesAreToldApart) {
  const auto told =
      launch_all(all({"--nnodes=3", "--node-rank", "#", "--rdzv-endpoint", "localhost:" + port_,
                      "--tee", "1", "--log-dir", folder_ / "logs", "--rdzv-id", "job"}),
                 {}, "x");
  EXPECT_THAT(told, ElementsAre("[default0]:x\n", "[default1]:x\n", "[default2]:x\n"));
  std::string host(256, '\0');
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  host.resize(host.find('\0'));
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "logs")) {
    EXPECT_THAT(entry.path().filename().string(), StartsWith("job_" + host + "_"));
    ++folders;
  }
  EXPECT_EQ(folders, 3);
}

TEST_F(NodesOptions, WhoeverStaysAloneEndsAtTheTimeout) {
  const Outcome alone =
      launch({"--nnodes=2", "--node-rank=0", "--rdzv-endpoint", "localhost:" + port_, "--rdzv-conf",
              "join_timeout=1", "--log-dir", folder_ / "logs"},
             {"/bin/true"});
  EXPECT_EQ(alone.code, 69);
  EXPECT_GT(alone.seconds, 0.9);
  EXPECT_LT(alone.seconds, 20.0);
  EXPECT_THAT(alone.err, HasSubstr("node 1 (never seen)"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "logs")) << "of a run that has not begun";
}

}  // namespace
}  // namespace lockstep::test
