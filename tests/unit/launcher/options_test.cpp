#include "launcher/options/options.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <map>

#include "launcher/options/signal_list.h"

namespace lockstep::launcher {
namespace {

using Words = std::vector<std::string>;

Result<LaunchOptions> parse(const Words& words, std::map<std::string, std::string> variables = {}) {
  return parse_run_options(words, [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string message(const Words& words, std::map<std::string, std::string> variables = {}) {
  const auto result = parse(words, std::move(variables));
  if (result.ok()) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  return result.error().message;
}

TEST(Options, DefaultsAreTorchruns) {
  const auto options = parse({"prog"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->nproc_per_node, 1);
  EXPECT_EQ(options->max_restarts, 0);
  EXPECT_EQ(options->max_replacements, 10);
  EXPECT_EQ(options->run_id, "none");
  EXPECT_EQ(options->role, "default");
  EXPECT_EQ(options->shutdown_timeout.count(), 30'000);
  EXPECT_EQ(options->stop_grace.count(), 1'000);
}

TEST(Options, AHangTimeoutThatIsGivenHoldsForTheWholeRun) {
  const auto given = parse({"--hang-timeout", "60", "prog"}), defaults = parse({"prog"});
  ASSERT_TRUE(given.ok() && defaults.ok());
  ASSERT_TRUE(given->hang_timeout);
  EXPECT_EQ(given->hang_timeout->count(), 60'000);
  EXPECT_FALSE(defaults->hang_timeout);
}

TEST(Options, BothSpellingsAndBothForms) {
  for (const Words& words : {Words{"--nproc-per-node", "3", "p"},
                             {"--nproc_per_node", "3", "p"},
                             {"--nproc-per-node=3", "p"},
                             {"--nproc_per_node=3", "p"}}) {
    const auto options = parse(words);
    ASSERT_TRUE(options.ok()) << words[0];
    EXPECT_EQ(options->nproc_per_node, 3);
  }
}

TEST(Options, TheProgramsArgumentsAreItsOwn) {
  const auto options = parse({"-m", "pkg.mod", "--nproc-per-node", "4", "--", "-r", "3"});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->module);
  EXPECT_EQ(options->nproc_per_node, 1);
  EXPECT_EQ(options->program, (Words{"pkg.mod", "--nproc-per-node", "4", "--", "-r", "3"}));
}

TEST(Options, CommandLineThenEnvironmentThenDefault) {
  EXPECT_EQ(parse({"p"}, {{"PET_NPROC_PER_NODE", "5"}})->nproc_per_node, 5);
  EXPECT_EQ(parse({"p"}, {{"PET_N_PROC_PER_NODE", "5"}})->nproc_per_node, 5);
  EXPECT_EQ(parse({"--nproc-per-node", "2", "p"}, {{"PET_NPROC_PER_NODE", "5"}})->nproc_per_node,
            2);
  EXPECT_TRUE(parse({"p"}, {{"PET_STANDALONE", "1"}})->standalone);
  EXPECT_FALSE(parse({"p"}, {{"PET_STANDALONE", ""}})->standalone);
  EXPECT_NE(message({"p"}, {{"PET_MAX_RESTARTS", "x"}}).find("PET_MAX_RESTARTS"),
            std::string::npos);
}

// A container of a job has the job's variables: they are not in the way of what is started there
// by hand.
TEST(Options, WhatTheCommandLineSaysIsNotReadFromTheEnvironment) {
  const std::map<std::string, std::string> of_job{{"PET_NNODES", "4"},
                                                  {"PET_NPROC_PER_NODE", "gpu"},
                                                  {"PET_TEE", "all"},
                                                  {"PET_SHUTDOWN_TIMEOUT", "long"},
                                                  {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "long"}};
  const auto given = parse(
      {"--nnodes=1", "--nproc_per_node", "2", "-t", "3", "--shutdown-timeout", "5", "p"}, of_job);
  ASSERT_TRUE(given.ok()) << given.error().message;
  EXPECT_EQ(given->nproc_per_node, 2);
  EXPECT_TRUE(parse({"--standalone", "p"}, {{"PET_STANDALONE", "yes"}})->standalone);
  EXPECT_NE(message({"--nproc-per-node", "2", "p"}, of_job).find("PET_SHUTDOWN_TIMEOUT"),
            std::string::npos);
}

// As in torchrun: it has a rendezvous of its own.
TEST(Options, StandaloneDoesNotReadTheRendezvousOfTheJob) {
  const std::map<std::string, std::string> of_job{{"PET_NODE_RANK", "3"},
                                                  {"PET_RDZV_BACKEND", "etcd"},
                                                  {"PET_RDZV_ENDPOINT", "::"},
                                                  {"PET_RDZV_ID", "a/b"}};
  EXPECT_NE(message({"p"}, of_job), "");
  const auto given = parse({"--standalone", "p"}, of_job);
  ASSERT_TRUE(given.ok()) << given.error().message;
  auto variables = of_job;
  variables["PET_STANDALONE"] = "1";
  EXPECT_EQ(message({"p"}, variables), "");
  EXPECT_NE(message({"--standalone", "--rdzv-backend", "etcd", "p"}), "");
}

TEST(Options, TheSecondNameOfAVariableComesAfterTheFirst) {
  const std::map<std::string, std::string> both{{"PET_SHUTDOWN_TIMEOUT", "5"},
                                                {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "long"}};
  EXPECT_EQ(parse({"p"}, both)->shutdown_timeout,
            parse({"--shutdown-timeout", "5", "p"})->shutdown_timeout);
  EXPECT_EQ(
      parse({"p"}, {{"PET_N_PROC_PER_NODE", "3"}, {"PET_NPROC_PER_NODE", ""}})->nproc_per_node, 3);
}

TEST(Options, OfListsTooTheCommandLineTakesThePlaceOfTheEnvironment) {
  const std::map<std::string, std::string> variables{{"PET_LOCAL_RANKS_FILTER", "0"},
                                                     {"PET_INJECT", "kill rank=1 txn=3"}};
  const auto inherited = parse({"p"}, variables);
  EXPECT_EQ(inherited->local_ranks_filter, std::vector<int>{0});
  EXPECT_EQ(inherited->inject, "kill rank=1 txn=3");
  const auto given = parse({"--local-ranks-filter", "1,2", "--inject", "stop rank=0 txn=5",
                            "--inject", "stop rank=1 txn=6", "p"},
                           variables);
  EXPECT_EQ(given->local_ranks_filter, (std::vector<int>{1, 2}));
  EXPECT_EQ(given->inject, "stop rank=0 txn=5; stop rank=1 txn=6");
}

TEST(Options, TheVariableThatWasReadIsNamed) {
  EXPECT_NE(message({"p"}, {{"PET_N_PROC_PER_NODE", "x"}}).find("variable PET_N_PROC_PER_NODE: "),
            std::string::npos);
  EXPECT_NE(message({"p"}, {{"PET_NPROC_PER_NODE", "x"}}).find("variable PET_NPROC_PER_NODE: "),
            std::string::npos);
}

TEST(Options, AutoIsAsManyAsTheCpusThatWeMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(parse({"--nproc-per-node", "auto", "p"})->nproc_per_node, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto options = parse({"--nproc-per-node", "auto", "p"});
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(options->nproc_per_node, 1);
}

TEST(Options, StandaloneHasARandomId) {
  const auto a = parse({"--standalone", "--rdzv-id", "x", "p"}), b = parse({"--standalone", "p"});
  EXPECT_EQ(a->run_id.size(), 36U);
  EXPECT_NE(a->run_id, b->run_id);
}

TEST(Options, RendezvousOfOneNode) {
  const auto options = parse({"--rdzv-backend", "static", "--rdzv-endpoint", "host:1234",
                              "--rdzv-id", "job", "--rdzv-conf", "a=b,c=d", "p"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->master_addr, "host");
  EXPECT_EQ(options->master_port, 1234);
  EXPECT_EQ(options->run_id, "job");
  EXPECT_EQ(parse({"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "p"})->master_addr,
            "127.0.0.1");
  EXPECT_NE(message({"--rdzv-conf", "x", "p"}).find("key=value"), std::string::npos);
  EXPECT_NE(message({"--rdzv-id", "a/b", "p"}).find("'/'"), std::string::npos);
}

TEST(Options, TheStoresPortIsMasterPort) {
  EXPECT_EQ(parse({"--store-port", "29510", "p"})->master_port, 29510);
  EXPECT_EQ(parse({"--store-port", "0", "--master-port", "29511", "p"})->master_port, 29511);
  EXPECT_EQ(parse({"--store-port", "29511", "--master-port", "29511", "p"})->master_port, 29511);
  EXPECT_NE(message({"--store-port", "1", "--rdzv-endpoint", "host:2", "p"}).find("MASTER_PORT 2"),
            std::string::npos);
  EXPECT_TRUE(parse({"p"})->share_store);
}

TEST(Options, StreamsTakeRanksOfAnyLength) {
  const auto options = parse({"-r", "3", "-t0:1,12:3", "p"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->redirects.of(7), 3U);
  EXPECT_EQ(options->tee.of(0), 1U);
  EXPECT_EQ(options->tee.of(12), 3U);
  EXPECT_EQ(options->tee.of(1), 0U);
}

TEST(Options, WrongOnesAreNamed) {
  EXPECT_NE(message({"--nproc-per-nod", "2", "p"}).find("did you mean '--nproc-per-node'?"),
            std::string::npos);
  EXPECT_NE(message({"--max-restart", "2", "p"}).find("did you mean '--max-restarts'?"),
            std::string::npos);
  EXPECT_NE(message({"--nproc", "2", "p"}).find("unknown option '--nproc'"),
            std::string::npos);  // no abbreviations
  EXPECT_NE(message({"--nproc-per-node", "xpu", "p"}).find("GPU"), std::string::npos);
  EXPECT_NE(message({"--nproc-per-node", "0", "p"}).find("from 1 to 128, not '0'"),
            std::string::npos);
  EXPECT_NE(message({"--nproc-per-node"}).find("needs a value"), std::string::npos);
  EXPECT_NE(message({"--standalone=yes", "p"}).find("takes no value"), std::string::npos);
  EXPECT_NE(message({"--stop-grace", "-1", "p"}).find("seconds"), std::string::npos);
  EXPECT_NE(message({"-m", "--no-python", "p"}).find("only one"), std::string::npos);
  EXPECT_NE(message({}).find("no program given"), std::string::npos);
}

TEST(Options, LocalRanksThatNoWorkerCanHaveAreRefused) {
  LaunchOptions options;
  options.tee.by_rank[9] = kStdout;
  EXPECT_TRUE(check_local_ranks(options, 10, "ten").ok());
  const Status refused = check_local_ranks(options, 3, "--nproc-per-node 3");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(refused.error().message,
            "--tee names local rank 9, but none is above 2 (--nproc-per-node 3)");
  options = {};
  options.local_ranks_filter = {0, 3};
  EXPECT_FALSE(check_local_ranks(options, 3, "").ok());
}

TEST(Options, WhatAValueMustBeIsSaid) {
  const std::vector<std::pair<Words, std::string>> samples{
      {{"--start-method", "frok"},
       "--start-method takes fork, exec, spawn or forkserver, not 'frok'; did you mean 'fork'?"},
      {{"--start-method", "x"}, "--start-method takes fork, exec, spawn or forkserver, not 'x'"},
      {{"--rdzv-backend", "c10"}, "did you mean 'c10d'?"},
      {{"--nproc-per-node", "atuo"}, "did you mean 'auto'?"},
      {{"-r", "7"},
       "--redirects takes 0 to 3 (1 stdout, 2 stderr, 3 both), or pairs like 0:1,1:3 "
       "of a local rank and one of these, not '7'"},
      {{"-t", "0:4"}, "not '0:4'"},
      {{"-t", "x:1"}, "not 'x:1'"},
      {{"-r", ""}, "--redirects takes 0 to 3"}};
  for (const auto& [words, says] : samples) {
    Words line = words;
    line.push_back("p");
    const auto options = parse(line);
    ASSERT_FALSE(options.ok()) << words[1];
    EXPECT_NE(options.error().message.find(says), std::string::npos) << options.error().message;
  }
}

TEST(Options, TheHelpNamesEveryStartMethod) {
  EXPECT_NE(run_help().find("--start-method fork|exec|spawn|forkserver"), std::string::npos);
}

TEST(Options, SignalsToHandleTakesNamesAndNumbersAndEachOnce) {
  const auto handled = [](const char* list) {
    return parse({"--signals-to-handle", list, "p"}).value().signals_to_handle;
  };
  using List = std::vector<int>;
  EXPECT_EQ(handled("SIGTERM,SIGINT,SIGHUP,SIGQUIT"), (List{SIGTERM, SIGINT, SIGHUP, SIGQUIT}));
  EXPECT_EQ(handled("USR1, sigusr2,10,SIGUSR1"), (List{SIGUSR1, SIGUSR2}));
  EXPECT_EQ(handled("SIGRTMIN,RTMIN+2,SIGRTMAX-1,POLL,sigxcpu"),
            (List{SIGRTMIN, SIGRTMIN + 2, SIGRTMAX - 1, SIGIO, SIGXCPU}));
  EXPECT_EQ(stop_signals(handled("SIGUSR1,INT")),
            (List{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1}));
  EXPECT_EQ(parse({"p"}, {{"PET_SIGNALS_TO_HANDLE", "SIGALRM"}}).value().signals_to_handle,
            List{SIGALRM});
}

TEST(Options, SignalsThatCannotAskForAnEndAreRefused) {
  const auto refused = [](const std::string& why, const Words& lists) {
    for (const std::string& list : lists) {
      const std::string said = message({"--signals-to-handle", list, "p"});
      EXPECT_EQ(said.find("--signals-to-handle"), 0U) << list << said;
      EXPECT_NE(said.find(why), std::string::npos) << list << said;
    }
  };
  refused("no process can handle it", {"SIGKILL", "TERM,STOP", "9"});
  refused("when a worker ends", {"SIGCHLD", "17", "SIGCLD"});
  refused("fault of its own", {"SIGSEGV", "IOT", "bus,TERM"});
  refused("stops and continues", {"SIGTSTP", "SIGCONT", "20"});
  refused("a write that fails", {"SIGPIPE", "SIGXFSZ"});
  refused("did you mean 'SIGTERM'?", {"SIGTREM", "TREM"});
  refused("is missing", {"", "TERM,", ",", "TERM,,INT", " "});
  refused("is no signal", {"RTMAX+1", "RTMIN-1", "SIGRTMIN+99", "15.0", "TERM INT", "usr3", "SIG"});
  refused("no signal 0;", {"0"});
  refused("there is no signal", {"-15", "32", "65"});
}

TEST(Options, TorchrunsHarmlessOptionsAreAccepted) {
  EXPECT_TRUE(parse({"--monitor-interval", "0.1", "--local-addr", "x", "--event-log-handler",
                     "null", "--node-rank", "0", "--start-method", "spawn", "--nnodes", "1", "p"})
                  .ok());
  EXPECT_FALSE(parse({"--monitor-interval", "soon", "p"}).ok());
  EXPECT_FALSE(parse({"--event-log-handler", "console", "p"}).ok());
  EXPECT_FALSE(parse({"--numa-binding", "node", "p"}).ok());
}

}  // namespace
}  // namespace lockstep::launcher
