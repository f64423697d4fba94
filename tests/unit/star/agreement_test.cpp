// Who does not agree is told what differs, with both values and both hosts; and so is the leader.
#include "star/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "unit/star/star_test.h"

namespace lockstep::star::test {
namespace {

using message::Hello;
using testing::AllOf;
using testing::HasSubstr;

class Agreement : public StarTest {
 protected:
  // A node that does not agree, in a run of two others that do.
  void refused(const Given& with, int code, const std::string& option, const std::string& theirs,
               const std::string& ours) {
    Agent& agent = join(with);
    ASSERT_TRUE(run_until([&] { return agent.refused.has_value(); })) << option;
    EXPECT_EQ(agent.refused->code, code) << option;
    const auto names = AllOf(HasSubstr(option), HasSubstr(theirs), HasSubstr(ours),
                             HasSubstr("host7"), HasSubstr("host0"));
    EXPECT_THAT(agent.refused->text, names);
    EXPECT_THAT(log, names) << "the leader says it too";
    agents.pop_back();
    log.clear();
  }
};

TEST_F(Agreement, EachThatDiffersIsRefusedAtOnceAndNobodyElseIsDisturbed) {
  rules.max_restarts = 3;
  lead();
  join(1), join(2);
  ASSERT_TRUE(run_until([&] { return all_run(1); }));
  Given with = given(7);
  with.self.run_id = "other";
  refused(with, 69, "--rdzv-id", "'other'", "'run'");
  with = given(7);
  with.self.version = "0.9.0 (protocol 29)";
  refused(with, 2, "version of Lockstep", "0.9.0 (protocol 29)", "install the same one");
  with = given(7);
  with.self.linked = true;
  refused(with, 2, "the program differs", "it links Lockstep on host7",
          "it does not link Lockstep on");
  with = given(7);
  with.self.nodes = 4;
  refused(with, 2, "--nnodes", "4", "3");
  with = given(7);
  with.self.max_restarts = 0;
  refused(with, 2, "--max-restarts", "0", "3");
  with = given(7);
  with.self.limit_ns = 30'000'000'000;
  refused(with, 2, "keep_alive_interval", "30 s", "2 s");
  with = given(7);
  with.self.tie_break = "lockfile=/locks";
  refused(with, 2, "--tie-break", "'lockfile=/locks' on host7", "not given on host0");
  with = given(7);
  with.rank = 1;
  refused(with, 2, "--node-rank", "given", "not given");
  EXPECT_TRUE(all_run(1));
  for (const auto& agent : agents) EXPECT_EQ(agent->closed, 0);
}

// Nobody has given them an id or a port.
TEST(TwoRuns, StepsOfSlurmAreTakenForSuch) {
  Hello theirs, ours;
  theirs.run_id = "4711.0";
  ours.run_id = "4710.7";
  const auto steps = disagreement(theirs, "10.0.0.2", ours);
  ASSERT_TRUE(steps);
  EXPECT_THAT(steps->text, AllOf(HasSubstr("steps of Slurm"), HasSubstr("--rdzv-endpoint")));
  theirs.run_id = "mine";
  EXPECT_THAT(disagreement(theirs, "10.0.0.2", ours)->text, HasSubstr("give the same"));
}

TEST_F(Agreement, WhoComesAgainAndAgainFillsNoLog) {
  lead();
  Given with = given(7);
  with.self.nodes = 4;
  for (int i = 0; i < 50; ++i) {
    Agent& agent = join(with);
    ASSERT_TRUE(run_until([&] { return agent.refused.has_value(); }));
    agents.pop_back();
  }
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

// Two nodes with a wrong key are two things to mend.
TEST_F(Agreement, EachAddressIsNamedOnce) {
  lead();
  for (const int number : {2, 3}) {
    Given with = given(number);
    with.address = "127.0.0." + std::to_string(number);
    with.tls = tls_of(kOtherKey);
    join(with);
  }
  const auto named = [&] {
    return log.find("127.0.0.2") != std::string::npos && log.find("127.0.0.3") != std::string::npos;
  };
  EXPECT_TRUE(run_until(named, 20s)) << log;
  run_for(500ms);  // in which both dial some times more
  std::istringstream lines(log);
  int told = 0;
  for (std::string line; std::getline(lines, line);) told += line.find("not let in") != line.npos;
  EXPECT_EQ(told, 2) << log;
}

// In 5 s: somebody else may still go from the port, a key still be written.
TEST_F(Agreement, KeysAndVersionsThatDifferAreToldToBoth) {
  lead();
  Given other_key = given(1), no_key = given(2), other_version = given(3);
  other_key.tls = tls_of(kOtherKey);
  no_key.tls = nullptr;
  other_version.protocol = 99;
  for (const Given& with : {other_key, no_key, other_version}) join(with);
  ASSERT_TRUE(run_until([&] {
    return std::ranges::all_of(agents,
                               [](const auto& agent) { return agent->refused.has_value(); });
  }));
  EXPECT_THAT(agents[0]->refused->text, HasSubstr("key"));
  EXPECT_THAT(agents[1]->refused->text, HasSubstr("key"));
  EXPECT_THAT(agents[2]->refused->text, HasSubstr("version"));
  for (const auto& agent : agents) EXPECT_EQ(agent->refused->code, 69);
  EXPECT_THAT(log, AllOf(HasSubstr("not let in"), HasSubstr("key"), HasSubstr("version")));
  EXPECT_EQ(hub->leader().phase(), nodes::Leader::Phase::kForming);
}

TEST_F(Agreement, OfOtherArgumentsTheFirstDifferenceIsSaid) {
  const auto with = [&](int number, std::vector<std::string> program) {
    Hello self = hello(number);
    self.program = std::move(program);
    return self;
  };
  const std::string script(5000, 'x');
  EXPECT_EQ(other_program(with(2, {"a.py", "--pace", "1"}), with(1, {"a.py", "--pace", "2"})),
            "another program or other arguments on host2: 'a.py --pace 1', on host1: "
            "'a.py --pace 2'");
  const std::string said = other_program(with(2, {"sh", "-c", script + "é 1", script}),
                                         with(1, {"sh", "-c", script + "é 2", script}));
  EXPECT_THAT(said, AllOf(HasSubstr("xé 1"), HasSubstr("xé 2")));
  EXPECT_LT(said.size(), 400u);
  EXPECT_THAT(other_program(with(2, {"a.py"}), with(1, {"a.py", "--more"})),
              AllOf(HasSubstr("'a.py', on"), HasSubstr("'a.py --more'")));
  EXPECT_THAT(other_program(with(2, {"a", "b c"}), with(1, {"a", "b", "c"})),
              AllOf(HasSubstr("'a 'b c''"), HasSubstr("'a b c'")));
  EXPECT_EQ(other_program(with(2, {"a", "b"}), with(1, {"a", "b"})), "");
}

TEST_F(Agreement, ARankTwiceIsToldWithBothAddresses) {
  const auto with = [&](int number, int rank) {
    Given one = given(number);
    one.rank = rank;
    return one;
  };
  lead(with(0, 0));
  join(with(1, 1));
  ASSERT_TRUE(run_until([&] { return agents[0]->node.share().rank >= 0 || agents[0]->words > 2; }));
  Agent& twice = join(with(2, 1));
  ASSERT_TRUE(run_until([&] { return twice.node.ending().has_value(); }));
  EXPECT_THAT(twice.node.ending()->text, AllOf(HasSubstr("node rank 1"), HasSubstr("127.0.0.1")));
  EXPECT_THAT(log, AllOf(HasSubstr("not let in: host2"), HasSubstr("node rank 1")));
  agents.pop_back();
  join(with(3, 2));
  EXPECT_TRUE(run_until([&] { return all_run(1); }));
}

TEST_F(Agreement, AnAddressTranslationIsSaidWithBothAddresses) {
  const std::string said = translation("host7", "192.168.9.2", "10.77.0.99");
  EXPECT_THAT(said, HasSubstr("host7 has the address 192.168.9.2, and the leader sees 10.77.0.99"));
  EXPECT_THAT(said, HasSubstr("Connections from it come through"));
  EXPECT_EQ(translation("host7", "10.77.0.2", "10.77.0.2"), "");
  EXPECT_EQ(translation("host7", "fe80::2%ens5", "fe80::2%eth0"), "");
  EXPECT_EQ(translation("host7", "", "127.0.0.1"), "");
  EXPECT_THAT(forwarding("10.77.0.1", "172.17.0.2"),
              AllOf(HasSubstr("reached at 10.77.0.1, and its own address is 172.17.0.2"),
                    HasSubstr("--local-addr")));
  EXPECT_EQ(forwarding("10.77.0.1", "10.77.0.1"), "");
  EXPECT_EQ(forwarding("fe80::1%eth0", "fe80::1%ens5"), "");
  EXPECT_EQ(forwarding("", "10.77.0.1"), "");
}

}  // namespace
}  // namespace lockstep::star::test
