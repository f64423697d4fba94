// The options of several nodes: torchrun's rendezvous, and ours.
#include <gmock/gmock.h>

#include <array>
#include <map>

#include "launcher/options/options.h"
#include "launcher/options/rendezvous.h"
#include "unit/launcher/nodes_options_parse.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

TEST(NodesOptions, OneNodeIsTheDefault) {
  for (const Words& words : {Words{}, {"--nnodes", "1"}, {"--nnodes=1:1"}, {"--standalone"}}) {
    const NodesOptions of = nodes(words);
    EXPECT_EQ(of.nnodes, 1);
    EXPECT_EQ(of.endpoint_host, "");
  }
}

TEST(NodesOptions, ALockFileBreaksTies) {
  EXPECT_EQ(nodes(two({})).lock_directory, "");
  EXPECT_EQ(nodes(two({"--tie-break", "lockfile=/a/./b"})).lock_directory, "/a/b");
  EXPECT_EQ(nodes(two({"--tie_break=lockfile=/a"})).lock_directory, "/a");
  EXPECT_EQ(nodes(two({}), {{"PET_TIE_BREAK", "lockfile=/a"}}).lock_directory, "/a");
  EXPECT_THAT(nodes(two({"--tie-break", "lockfile=a"})).lock_directory,
              testing::MatchesRegex("/.*/a"));
  for (const char* wrong : {"first", "lockfile", "lockfile=", "file=/a", "lockfile=s3://a/b"})
    EXPECT_THAT(refusal_of(two({"--tie-break", wrong})), StartsWith("--tie-break")) << wrong;
  EXPECT_THAT(refusal_of({"--tie-break", "lockfile=/a"}), HasSubstr("a run of one"));
  EXPECT_TRUE(parse({}, {{"PET_TIE_BREAK", "lockfile=/a"}}).ok()) << "for all commands of a job";
  EXPECT_TRUE(parse({"--standalone"}, {{"PET_TIE_BREAK", "x"}}).ok());
}

TEST(NodesOptions, AreTakenInBothSpellingsAndFromTheEnvironment) {
  const Words words{"--nnodes=3",
                    "--node_rank",
                    "2",
                    "--rdzv_endpoint",
                    "[fe80::1]:7",
                    "--rdzv-backend=c10d",
                    "--local-addr=10.0.0.2",
                    "--key_file",
                    "/k",
                    "--rdzv-conf",
                    "is_host=1",
                    "--store-port=9"};
  const Variables variables{{"PET_NNODES", "3:3"},
                            {"PET_NODE_RANK", "2"},
                            {"PET_RDZV_ENDPOINT", "[fe80::1]:7"},
                            {"PET_RDZV_BACKEND", "c10d"},
                            {"PET_LOCAL_ADDR", "10.0.0.2"},
                            {"PET_KEY_FILE", "/k"},
                            {"PET_RDZV_CONF", "is_host=1"},
                            {"PET_STORE_PORT", "9"}};
  for (const NodesOptions& of : {nodes(words), nodes({}, variables)}) {
    EXPECT_EQ(of.nnodes, 3);
    EXPECT_EQ(of.node_rank, 2);
    EXPECT_EQ(of.endpoint_host, "fe80::1");
    EXPECT_EQ(of.endpoint_port, 7);
    EXPECT_FALSE(of.is_static);
    EXPECT_EQ(of.local_addr, "10.0.0.2");
    EXPECT_EQ(of.key_file, "/k");
    EXPECT_EQ(of.is_host, true);
    EXPECT_EQ(of.store_port, 9);
  }
  EXPECT_EQ(nodes(words).nnodes_from, "--nnodes 3");
  EXPECT_EQ(nodes({}, variables).nnodes_from, "PET_NNODES=3");
}

TEST(NodesOptions, ARankIsTheirsOnlyIfItIsGiven) {
  EXPECT_FALSE(nodes(two({})).node_rank);
  EXPECT_EQ(nodes(two({"--node-rank", "0"})).node_rank, 0);
}

TEST(NodesOptions, TheEndpointGoesBeforeTheMastersAddress) {
  const auto at = [](const Words& words) {
    const NodesOptions of = nodes(words);
    return of.endpoint_host + " " + std::to_string(of.endpoint_port) +
           (of.is_static ? " static" : "");
  };
  EXPECT_EQ(at(two({})), "h 29400 static");  // static is torchrun's default
  EXPECT_EQ(at(two({"--rdzv-backend", "c10d"})), "h 29400");
  EXPECT_EQ(at(two({"--rdzv-backend", "static"})), "h 29400 static");
  EXPECT_EQ(at({"--nnodes=2", "--master-addr", "m"}), "m 29500 static");
  EXPECT_EQ(at({"--nnodes=2", "--master-addr", "m", "--master-port", "7"}), "m 7 static");
  EXPECT_EQ(at({"--nnodes=2", "--master-addr", "::1", "--rdzv-backend", "c10d"}),
            "::1 29500 static");
  EXPECT_EQ(at(two({"--master-addr", "m", "--master-port", "7"})), "h 7 static");
  EXPECT_EQ(at(two({"--rdzv-backend=c10d", "--master-port", "7"})), "h 29400");
  EXPECT_EQ(at({"--nnodes=2", "--rdzv-endpoint=h:5", "--master-addr=m", "--master-port=7"}),
            "h 5 static");
  EXPECT_EQ(nodes(two({"--master-addr", "m"})).endpoint_host, "h");
}

// As in torchrun, MASTER_PORT is the endpoint's in the static form.
TEST(NodesOptions, AStoresPortIsItsOwnUnlessItIsTheEndpoints) {
  NodesOptions of = nodes(two({"--store-port", "7"}));
  EXPECT_EQ(of.store_port, 7);
  EXPECT_FALSE(of.is_static);
  of = nodes(two({"--rdzv-backend=c10d", "--store-port", "29400"}));
  EXPECT_EQ(of.store_port, 0);
  EXPECT_TRUE(of.is_static);
  of = nodes({"--nnodes=2", "--master-addr=m", "--master-port=7", "--store-port=8"});
  EXPECT_EQ(of.endpoint_port, 7);
  EXPECT_EQ(of.store_port, 8);
  EXPECT_EQ(parse(two({"--store-port", "7"}))->master_port, 0);  // one node's
}

TEST(NodesOptions, SettingsOfTheRendezvous) {
  const NodesOptions defaults = nodes(two({}));
  EXPECT_EQ(defaults.join_timeout, 600s);
  EXPECT_FALSE(defaults.limit);
  EXPECT_FALSE(defaults.is_host);
  const auto of = [](const std::string& conf) { return nodes(two({"--rdzv-conf", conf})); };
  EXPECT_EQ(of("join_timeout=30").join_timeout, 30s);
  EXPECT_EQ(of("timeout=900").join_timeout, 900s);
  EXPECT_EQ(of("join_timeout=0.5,timeout=900").join_timeout, 500ms);
  EXPECT_EQ(of("keep_alive_interval=2").limit, 6s);
  EXPECT_EQ(of("keep_alive_max_attempt=12").limit, 60s);
  EXPECT_EQ(of("keep_alive_interval=0.1,keep_alive_max_attempt=10").limit, 1s);
  EXPECT_EQ(of(" is_host = FALSE , join_timeout = 7 ").is_host, false);
  EXPECT_EQ(of("is_host=Yes").is_host, true);
  EXPECT_EQ(of("join_timeout=1,join_timeout=2").join_timeout, 2s);
  EXPECT_EQ(of("last_call_timeout=1,close_timeout=9,read_timeout=60,heartbeat_timeout=5,store_type="
               "tcp")
                .join_timeout,
            600s);
  EXPECT_EQ(of("").join_timeout, 600s);
}

TEST(NodesOptions, WhatIsWrongIsNamedWithTheWayOut) {
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{"--nnodes", "1:4"}, "write --nnodes 4, and start all 4"},
           {{"--nnodes", "4:2"}, "--nnodes 4:2 goes down"},
           {{"--nnodes", "0"}, "--nnodes takes a whole number from 1 to 65536, not '0'"},
           {{"--nnodes", "2:"}, "not ''"},
           {{"--nnodes", ":2"}, "not ''"},
           {{"--nnodes", "1:2:3"}, "not '2:3'"},
           {{"--nnodes", "two"}, "not 'two'"},
           {{"--nnodes="}, "--nnodes is empty"},
           {{"--node-rank", ""}, "--node-rank is empty"},
           {{"--node-rank", "-1"}, "--node-rank takes a whole number"},
           {{"--node-rank", "1"}, "--node-rank 1 is not below --nnodes 1"},
           {two({"--node-rank", "2"}), "not below --nnodes 2: nodes have the ranks 0 to 1"},
           {{"--rdzv-endpoint", ""}, "--rdzv-endpoint is empty"},
           {{"--rdzv-endpoint", ":29500"}, "has no host"},
           {{"--rdzv-backend=c10d", "--rdzv-endpoint", ":29500"}, "has no host"},
           {two({"--rdzv-endpoint", "h:0"}), "port 0 of --rdzv-endpoint"},
           {{"--nnodes=2", "--master-addr=m", "--master-port=0"}, "port 0 of --master-port"},
           {{"--master-addr", ""}, "--master-addr is empty"},
           {{"--master-addr", "m:1"}, "its port is --master-port"},
           {{"--local-addr", ""}, "--local-addr is empty"},
           {two({"--local-addr", "10.0.0.1:5"}), "--local-addr takes a host"},
           {{"--key-file", ""}, "--key-file is empty"},
           {{"--rdzv-backend", "etcd-v2"}, "use static or c10d"},
           {two({"--standalone"}),
            "--nnodes 2: a run with --standalone, like one of lockstep::spawn()"},
           {two({"--rdzv-conf", "join_timout=3"}), "did you mean 'join_timeout'?"},
           {two({"--rdzv-conf", "rank=1"}), "--node-rank"},
           {two({"--rdzv-conf", "x=1"}), "--rdzv-conf: unknown key 'x'"},
           {two({"--rdzv-conf", "join_timeout"}), "pairs like key=value, not 'join_timeout'"},
           {two({"--rdzv-conf", "join_timeout="}), "pairs like key=value"},
           {two({"--rdzv-conf", "join_timeout=0"}), "seconds above 0"},
           {two({"--rdzv-conf", "join_timeout=nan"}), "seconds above 0"},
           {two({"--rdzv-conf", "join_timeout=5m"}), "join_timeout=5m"},
           {two({"--rdzv-conf", "close_timeout=x"}), "close_timeout=x"},
           {two({"--rdzv-conf", "is_host=maybe"}), "true or false"},
           {two({"--rdzv-conf", "store_type=file"}), "not in a file"},
           {two({"--rdzv-conf", "keep_alive_max_attempt=1.5"}), "a whole number"},
           {two({"--rdzv-conf", "keep_alive_interval=0.3"}),
            "0.300 s * keep_alive_max_attempt 3 is 0.900 s"},
           {two({"--rdzv-conf", "keep_alive_interval=9999999"}), "seconds above 0"},
           {two({"--rdzv-conf", "keep_alive_max_attempt=1000000"}), "is 5000000 s"}})
    EXPECT_THAT(refusal_of(words), HasSubstr(says)) << words.back();
}

TEST(NodesOptions, TheVariableThatIsWrongIsNamed) {
  EXPECT_THAT(refusal_of({}, {{"PET_NNODES", "1:4"}}),
              StartsWith("environment variable PET_NNODES"));
  EXPECT_THAT(refusal_of(two({}), {{"PET_NODE_RANK", "7"}}), StartsWith("PET_NODE_RANK 7"));
  EXPECT_THAT(refusal_of(two({}), {{"PET_RDZV_CONF", "keep_alive=3"}}),
              StartsWith("PET_RDZV_CONF"));
  EXPECT_THAT(refusal_of(two({}), {{"PET_STANDALONE", "1"}}), HasSubstr("PET_STANDALONE"));
  EXPECT_THAT(refusal_of({}, {{"PET_NNODES", "2"}, {"PET_STANDALONE", "1"}}),
              HasSubstr("PET_NNODES"));
  // Whoever writes it in a container of the job means one node.
  EXPECT_EQ(nodes({"--standalone"}, {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}}).nnodes, 1);
}

// As Kubeflow's operators set them, older ones an empty PET_STANDALONE.
TEST(NodesOptions, AnOperatorsVariablesAreEnough) {
  const NodesOptions of = nodes({}, {{"PET_NNODES", "4"},
                                     {"PET_NPROC_PER_NODE", "auto"},
                                     {"PET_NODE_RANK", "3"},
                                     {"PET_MASTER_ADDR", "job-node-0-0.job"},
                                     {"PET_MASTER_PORT", "29500"},
                                     {"PET_STANDALONE", ""}});
  EXPECT_EQ(of.nnodes, 4);
  EXPECT_EQ(of.node_rank, 3);
  EXPECT_EQ(of.endpoint_host, "job-node-0-0.job");
  EXPECT_EQ(of.endpoint_port, 29'500);
  EXPECT_TRUE(of.is_static);
  EXPECT_EQ(nodes({}, {{"PET_NNODES", "2:2"},
                       {"PET_RDZV_BACKEND", "c10d"},
                       {"PET_RDZV_ENDPOINT", "job-worker-0:23456"},
                       {"PET_RDZV_ID", "job"},
                       {"PET_MASTER_ADDR", "job-master-0"},
                       {"PET_MASTER_PORT", "23456"},
                       {"PET_NODE_RANK", "1"},
                       {"PET_MAX_RESTARTS", "3"}})
                .endpoint_host,
            "job-worker-0");
}

// A cluster's operator writes these; they say nothing to a launcher, as in torchrun.
TEST(NodesOptions, OnlyTorchrunsVariablesAreRead) {
  const NodesOptions of = nodes({}, {{"RANK", "7"},
                                     {"WORLD_SIZE", "16"},
                                     {"NODE_RANK", "3"},
                                     {"MASTER_ADDR", ""},
                                     {"MASTER_PORT", "x"}});
  EXPECT_EQ(of.nnodes, 1);
}

Variables step_with(const Variables& others) {
  Variables variables = others;
  variables.insert(kStep.begin(), kStep.end());
  return variables;
}

TEST(NodesOptions, AStepOfSlurmSaysThem) {
  const auto options = parse({}, kStep);
  ASSERT_TRUE(options.ok()) << options.error().message;
  const NodesOptions& of = options->nodes;
  EXPECT_EQ(of.nnodes, 2);
  EXPECT_EQ(of.nnodes_from, "SLURM_STEP_NUM_NODES=2");
  EXPECT_EQ(of.node_rank, 1);
  EXPECT_EQ(of.endpoint_host, "n2");
  EXPECT_EQ(of.endpoint_port, 20'072);
  EXPECT_TRUE(of.is_static);
  EXPECT_EQ(options->run_id, "10.2");
  EXPECT_TRUE(options->notices.empty());
}

TEST(NodesOptions, WhatIsGivenGoesBeforeSlurm) {
  EXPECT_EQ(parse({"--rdzv-id", "mine"}, kStep)->run_id, "mine");
  EXPECT_EQ(nodes({"--node-rank", "0"}, kStep).node_rank, 0);
  EXPECT_FALSE(nodes({"--rdzv-backend", "c10d"}, kStep).is_static);
  EXPECT_EQ(nodes({"--master-port", "7"}, kStep).endpoint_port, 7);
  EXPECT_EQ(nodes({"--rdzv-backend=c10d", "--master-port=7"}, kStep).endpoint_port, 20'072);
  EXPECT_EQ(nodes({"--standalone"}, kStep).nnodes, 1);
  EXPECT_EQ(nodes({"--nnodes", "1"}, kStep).nnodes, 1);
  EXPECT_EQ(nodes({}, step_with({{"PET_NNODES", "1"}})).nnodes, 1);
  // An endpoint that is given for a part of the step, or by habit.
  const auto here = parse({"--rdzv-endpoint", "n2:1"}, kStep);
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(here->nodes.nnodes, 1);
  ASSERT_EQ(here->notices.size(), 1U);
  EXPECT_THAT(here->notices[0], HasSubstr("step of Slurm has 2 nodes, but --rdzv-endpoint"));
}

TEST(NodesOptions, WhatAWorkerStartsIsARunOfItsOwn) {
  const auto options = parse({}, step_with({{"TORCHELASTIC_RUN_ID", "10.2"}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->nodes.nnodes, 1);
  EXPECT_EQ(options->run_id, "none");
}

TEST(NodesOptions, AStepsRankIsTheNodesIfItHasAsMany) {
  EXPECT_EQ(nodes(two({}), kStep).node_rank, 1);
  EXPECT_EQ(nodes(two({"--node-rank", "0"}), step_with({{"SLURM_PROCID", "0"}})).node_rank, 0);
  EXPECT_FALSE(nodes({"--nnodes=3", "--rdzv-endpoint=h"}, kStep).node_rank);
  EXPECT_EQ(parse(two({}), kStep)->run_id, "none");
}

TEST(NodesOptions, ASecondTaskOnANodeIsRefusedUnlessItIsARunOfItsOwn) {
  const Variables tasks = step_with({{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}});
  EXPECT_THAT(refusal_of({}, tasks), HasSubstr("--ntasks-per-node=1"));
  EXPECT_THAT(refusal_of(two({}), tasks), HasSubstr("--ntasks-per-node=1"));
  EXPECT_EQ(refusal_of({"--standalone"}, tasks), "");
  EXPECT_EQ(refusal_of(two({"--node-rank", "1"}), tasks), "");
}

TEST(NodesOptions, AStepOfOneNodeIsARunOfOne) {
  const auto options = parse({"--master-port", "7"}, step_with({{"SLURM_STEP_NUM_NODES", "1"},
                                                                {"SLURM_STEP_NODELIST", "n2"},
                                                                {"SLURM_NODEID", "0"}}));
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->nodes.nnodes, 1);
  EXPECT_EQ(options->nodes.endpoint_host, "");
  EXPECT_EQ(options->master_port, 7);
  EXPECT_EQ(options->run_id, "10.2");
}

TEST(NodesOptions, ABatchScriptWithoutSrunIsToldThatItIsOneNode) {
  Variables batch = kStep;
  batch["SLURM_STEP_ID"] = "4294967291";
  for (const Words& words : {Words{}, {"--master-addr", "127.0.0.1"}}) {
    const auto options = parse(words, batch);
    ASSERT_TRUE(options.ok()) << options.error().message;
    EXPECT_EQ(options->nodes.nnodes, 1);
    ASSERT_EQ(options->notices.size(), 1U);
    EXPECT_THAT(options->notices[0], HasSubstr("srun --ntasks-per-node=1"));
  }
  EXPECT_TRUE(parse({"--standalone"}, batch)->notices.empty());
  EXPECT_TRUE(parse({"--nnodes=1"}, batch)->notices.empty());
}

TEST(NodesOptions, WhoGivesNoEndpointIsShownTheWholeCommand) {
  const Words words{"--nnodes=2", "--role", "it's", "p", "--lr", "1"};
  const auto options = parse_run_options(words, [](std::string_view) { return std::nullopt; });
  ASSERT_TRUE(options.ok());
  const Status checked = check_endpoint(*options, words);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(checked.error().message,
              testing::EndsWith(
                  "lockstep run --rdzv-endpoint HOST:29400 --nnodes=2 --role 'it'\\''s' p …"));
  EXPECT_TRUE(check_endpoint(*parse(two({})), two({"p"})).ok());
  EXPECT_TRUE(check_endpoint(*parse({}), {}).ok());
}

}  // namespace
}  // namespace lockstep::launcher
