// Who looks whether somebody leads: at a leader, at another run's, where nobody listens, and where
// nobody answers.
#include "star/lookout.h"

#include <gtest/gtest.h>

#include "star/agreement.h"
#include "star_test.h"

namespace lockstep::star::test {
namespace {

class LookoutTest : public StarTest {
 protected:
  void SetUp() override {
    StarTest::SetUp();
    looks = hello(9);
  }
  // At these ports of this machine; what is found at each place.
  void look(const std::vector<int>& ports, int but = -1) {
    Lookout::Plan plan;
    for (const int at : ports) plan.places.push_back({"127.0.0.1", at});
    plan.self = looks;
    plan.party = {control::kProtocol, 50, "1.2.3"};
    plan.tls = tls_of(kKey);
    Lookout::Events events;
    events.nobody = [this](int place, bool here) { note(place, here ? "nobody here" : "nobody"); };
    events.silence = [this](int place) { note(place, "silence"); };
    events.lead = [this](const nodes::Lead& lead) {
      note(lead.place, "leads " + std::to_string(lead.attempt) + (lead.active ? " active" : ""));
    };
    events.refused = [this](const message::Refused& one) {
      refused.push_back(one.text);
      option = one.option;
    };
    lookout = std::make_unique<Lookout>(*loop, *timers, std::move(plan), std::move(events));
    lookout->look(50ms, but);
  }
  void note(int place, const std::string& what) {
    found[place] = what;
    ++times[place];
  }
  static int free_port() {
    const auto socket = control::listen_everywhere(0);
    return control::Address::local_of(socket->get())->port();
  }

  message::Hello looks;
  std::unique_ptr<Lookout> lookout;
  std::map<int, std::string> found;
  std::map<int, int> times;
  std::vector<std::string> refused;
  std::string option;
};

TEST_F(LookoutTest, FindsWhoLeadsAndWhereNobodyDoes) {
  lead();
  look({free_port(), port});
  ASSERT_TRUE(run_until([&] { return found.size() == 2; }));
  EXPECT_EQ(found[0], "nobody here");
  EXPECT_EQ(found[1], "leads 0");
  join(1);
  join(2);
  ASSERT_TRUE(run_until([&] { return found[1] == "leads 1 active"; })) << found[1];
  EXPECT_GT(times[0], 1) << "again and again";
  EXPECT_EQ(log.find("warning"), std::string::npos) << log;
}

TEST_F(LookoutTest, ALeaderIsNotDisturbed) {
  lead();
  join(1);
  join(2);
  ASSERT_TRUE(run_until([&] { return all_run(1); }));
  look({port});
  ASSERT_TRUE(run_until([&] { return times[0] > 20; }));
  EXPECT_TRUE(all_run(1));
  EXPECT_EQ(hub->leader().attempt(), 1U);
}

TEST_F(LookoutTest, SilenceIsNoAnswer) {
  const auto silent = control::listen_everywhere(0);  // and nobody accepts
  look({control::Address::local_of(silent->get())->port()});
  ASSERT_TRUE(run_until([&] { return times[0] > 1; }));
  EXPECT_EQ(found[0], "silence");
}

TEST_F(LookoutTest, AnotherRunsLeaderIsNobody) {
  lead();
  looks.run_id = "another";
  look({port});
  ASSERT_TRUE(run_until([&] { return !found.empty(); }));
  EXPECT_EQ(found[0], "nobody");
  EXPECT_TRUE(refused.empty());
}

TEST_F(LookoutTest, AListThatDiffersIsTold) {
  Given with = given(0);
  with.self.endpoints = "a:1,b:1";
  lead(with);
  looks.endpoints = "b:1,a:1";
  looks.nodes = 7;
  look({port});
  ASSERT_TRUE(run_until([&] { return !refused.empty(); }));
  EXPECT_NE(refused[0].find("--rdzv-endpoint differs: 'b:1,a:1' on host9"), std::string::npos);
  EXPECT_NE(refused[0].find("'a:1,b:1' on host0"), std::string::npos);
  EXPECT_EQ(option, kEndpointsOption) << "first of all: it may be anybody's run";
  EXPECT_NE(log.find("not let in"), std::string::npos) << "and on its side";
}

TEST_F(LookoutTest, RestsUntilItIsToLookAgain) {
  look({free_port(), free_port()}, 1);
  ASSERT_TRUE(run_until([&] { return times[0] > 0; }));
  EXPECT_EQ(times[1], 0) << "where it is itself";
  lookout->rest();
  const int before = times[0];
  run_for(300ms);
  EXPECT_EQ(times[0], before);
  lookout->look(50ms, -1);
  EXPECT_TRUE(run_until([&] { return times[0] > before && times[1] > 0; }));
}

}  // namespace
}  // namespace lockstep::star::test
