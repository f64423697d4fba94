// `lockstep status` and `lockstep stop` of a run on several nodes: three launchers on this machine,
// at any moment of their run.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fault/nodes_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class NodesAsk : public ThreeNodes {
 protected:
  void start(int rank, const std::string& restarts = "0") {
    ThreeNodes::start(rank, {"/bin/sh", "-c", "echo works; exec sleep 600 # " + folder_.path()},
                      {"--max-restarts", restarts});
  }
  void start_all(const std::string& restarts = "0") {
    for (const int rank : {0, 1, 2}) start(rank, restarts);
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(launcher(rank)->wait_for_output("works"));
  }
  Outcome ask(const Words& words) const {
    Words all{LOCKSTEP_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  }
  // Of the leader.
  nlohmann::json status() const {
    const Outcome answer = ask({"status", endpoint_, "--json"});
    return answer.code == 0 ? nlohmann::json::parse(answer.out) : nlohmann::json();
  }
  // Of all that are on this machine, by node.
  std::map<int, nlohmann::json> status_here() const {
    std::map<int, nlohmann::json> found;
    std::istringstream lines(ask({"status", "--id", id_, "--json"}).out);
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line);
      const int node = json["node"].get<int>();
      found[node] = std::move(json);
    }
    return found;
  }
};

TEST_F(NodesAsk, WhileItFormsAndRunsAndIsStopped) {
  start(0);
  start(1);
  ASSERT_TRUE(until([&] { return status()["waits_for"] == nlohmann::json::array({2}); }));
  EXPECT_EQ(status()["state"], "forming");
  const std::string page = read_text(LOCKSTEP_GUIDE "/many_nodes.md");
  for (const nlohmann::json& object : {status(), status()["members"].front()})
    for (const auto& [key, value] : object.items()) EXPECT_THAT(page, HasSubstr("`" + key + "`"));
  EXPECT_GT(status()["left_s"], 500);
  EXPECT_THAT(ask({"status", endpoint_}).out, HasSubstr("waits for node 2 (never seen)"));
  start(2);
  ASSERT_TRUE(until([&] { return status()["state"] == "running"; }));
  const nlohmann::json running = status();
  EXPECT_EQ(running["attempt"], 1);
  EXPECT_EQ(running["world_size"], 6);
  EXPECT_EQ(running["store"], endpoint_);
  for (const auto& member : running["members"]) EXPECT_LT(member["silent_s"], 5) << running;
  EXPECT_EQ(status_here().size(), 3U);
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(launcher(rank)->wait_for_output("works"));

  const Outcome stopped = ask({"stop", endpoint_});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.out, AllOf(HasSubstr("told to stop"), HasSubstr("3 nodes, 6 workers")));
  expect_all_end_with(143);
  EXPECT_THAT(launcher(0)->err(), HasSubstr("error: stopped by 'lockstep stop' on "));
  EXPECT_THAT(launcher(2)->err(), HasSubstr("was stopped by 'lockstep stop' on "));
  const Outcome over = ask({"status", "--id", id_});
  EXPECT_EQ(over.code, 69) << over.out;
}

TEST_F(NodesAsk, WithoutItsLeader) {
  start_all("1");
  launcher(0)->send(SIGKILL);
  launcher(0)->wait();
  launcher(0).reset();
  ASSERT_TRUE(until([&] {
    const auto here = status_here();
    return here.size() == 2 && here.at(1)["fenced"] == true && here.at(2)["fenced"] == true;
  }));
  EXPECT_EQ(status_here().at(2)["waits_for"], nlohmann::json::array({0}));
  const std::string text = ask({"status", "--id", id_}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("node 1 of 3"), HasSubstr("node 2 of 3"),
                          HasSubstr("waits for node 0 (" + endpoint_), HasSubstr(", fenced, "),
                          HasSubstr(" s left")));
  EXPECT_EQ(ask({"status", endpoint_}).code, 69);
  // Each ends by itself.
  EXPECT_EQ(ask({"stop", "--id", id_}).code, 0);
  expect_all_end_with(143);
}

TEST_F(NodesAsk, AnyNodeStopsTheRunBeforeItHasBegun) {
  start(1);
  ASSERT_TRUE(until([&] { return status_here().size() == 1; }));
  EXPECT_EQ(status_here().at(1)["state"], "waiting");
  start(0);
  ASSERT_TRUE(until([&] { return status()["waits_for"] == nlohmann::json::array({2}); }));
  EXPECT_EQ(ask({"stop", "--id", id_}).code, 0);
  expect_all_end_with(143);
}

// Two that do not answer cost no more time than one.
TEST_F(NodesAsk, LaunchersThatAreStoppedHoldUpNobody) {
  start_all();
  for (const int rank : {1, 2}) launcher(rank)->send(SIGSTOP);
  const Outcome answer = ask({"status", "--id", id_, "--json"});
  EXPECT_EQ(answer.code, 0);
  EXPECT_THAT(answer.out, HasSubstr(R"("leads":true)"));
  EXPECT_THAT(answer.err, HasSubstr("gives no answer in time"));
  EXPECT_LT(answer.seconds, 9.9);
  for (const int rank : {1, 2}) launcher(rank)->send(SIGCONT);
  EXPECT_EQ(ask({"stop", "--id", id_}).code, 0);
  expect_all_end_with(143);
}

TEST_F(NodesAsk, WordsThatAreNeitherFolderNorMachine) {
  const auto fails = [&](const Words& words, int code, const std::string& text) {
    const Outcome outcome = ask(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  fails({"status", "no such folder"}, 2, "there is no folder 'no such folder' here, so it is HOST");
  fails({"status", folder_ / "none"}, 69, "there is no folder");
  fails({"stop", folder_.path()}, 2, "is a run's folder");
  fails({"status", folder_.path(), "--key-file", "k"}, 2, "leave --key-file out");
  fails({"status", endpoint_}, 69, "no launcher of this user leads a run at 127.0.0.1");
  fails({"status", "--id", id_}, 69, "no launcher of this user on this machine");
  fails({"status", "a", "--id", "b"}, 2, "usage: lockstep status");
  fails({"status", "--id"}, 2, "unexpected '--id'");
  fails({"stop", "--json", "a"}, 2, "unexpected '--json'");
  fails({"stop"}, 2, "usage: lockstep stop HOST[:PORT]");
}

}  // namespace
}  // namespace lockstep::test
