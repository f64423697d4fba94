// A run over real sockets: form, run, end; connections that break; and those who have the key and
// are no nodes, or broken ones.
#include "star/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "control/listener.h"
#include "unit/star/star_test.h"

namespace lockstep::star::test {
namespace {

using message::Welcome;
using testing::HasSubstr;

class HubTest : public StarTest {
 protected:
  void run_three() {
    lead();
    join(1), join(2);
    ASSERT_TRUE(run_until([&] { return all_run(1); }));
  }
  void still_runs() {
    EXPECT_TRUE(all_run(1));
    for (const auto& agent : agents) EXPECT_EQ(agent->closed, 0);
  }
  static message::Failed because(const std::string& text) {
    message::Failed failed;
    failed.text = text;
    return failed;
  }
  static int open(const std::vector<std::unique_ptr<Stranger>>& all) {
    return static_cast<int>(std::ranges::count_if(
        all, [](const auto& one) { return !one->ended && one->connection->is_open(); }));
  }
};

TEST_F(HubTest, FormsRunsAndEnds) {
  run_three();
  std::set<std::uint32_t> bases{leader->node.share().base_rank};
  for (const auto& agent : agents) {
    bases.insert(agent->node.share().base_rank);
    EXPECT_EQ(agent->node.share().world, 6u);
    ASSERT_TRUE(agent->node.share().store);
    EXPECT_EQ(agent->node.share().store->address, "127.0.0.1");
  }
  EXPECT_EQ(bases, (std::set<std::uint32_t>{0, 2, 4}));
  all_end_well();
  EXPECT_TRUE(run_until([&] { return all_have_ended(0); }));
}

TEST_F(HubTest, AConnectionMadeAgainWithinASecondCostsNothing) {
  run_three();
  Agent& agent = *agents[0];
  agent.spoke.reset();
  agent.node.closed(clock_ns(CLOCK_BOOTTIME));
  run_for(200ms);
  connect(agent);
  run_for(1000ms);
  EXPECT_TRUE(all_run(1));
  EXPECT_EQ(agent.opened, 2);
  all_end_well();
  EXPECT_TRUE(run_until([&] { return all_have_ended(0); }));
}

TEST_F(HubTest, ADeadNodeCostsARestartOnceItIsBack) {
  rules.max_restarts = 1;
  run_three();
  agents[1].reset();
  ASSERT_TRUE(run_until([&] { return leader->runs == 0 && agents[0]->runs == 0; }));
  Given back = given(2);
  back.incarnation = 50;
  agents.erase(agents.begin() + 1);
  join(back);
  EXPECT_TRUE(run_until([&] { return all_run(2); }));
}

TEST_F(HubTest, WhoseFailureItWasTellsItAndNobodyElse) {
  run_three();
  agents[1]->spoke->tell(because("before the end"));
  agents[0]->runs = 0;
  agents[0]->node.workers_failed({0, 0, "rank 2 died", 7, false}, monotonic_ns());
  agents[0]->node.workers_gone(false);
  ASSERT_TRUE(run_until([&] { return hub->leader().final().has_value(); }));
  const auto stranger_to_it = stranger(100);
  say(*stranger_to_it, hello(9));
  say(*stranger_to_it, because("of no node"));
  agents[1]->spoke->tell(because("of another node"));
  run_for(100ms);
  agents[0]->spoke->tell(because("rank 2 died"));
  EXPECT_TRUE(run_until([&] { return !failed.empty(); }, 20s));
  EXPECT_EQ(failed, std::vector<std::string>{"rank 2 died"});
}

// Connected, and nothing comes: the way is broken, or whoever it is. Dialled beside it; nobody has
// closed anything before the other side does, or nobody listens there any more.
TEST_F(HubTest, ASilentLeaderIsDialledAgain) {
  auto socket = control::listen_everywhere(0);
  ASSERT_TRUE(socket.ok());
  control::Listener::Plan plan;
  plan.self = {control::kProtocol, 1, "1.2.3"};
  plan.tls = tls_of(kKey);
  std::vector<std::shared_ptr<control::Connection>> come;
  control::Listener::Events events;
  events.come = [&](std::shared_ptr<control::Connection> connection, std::string_view) {
    connection->hear({});
    connection->send(*star::encode(Welcome{"mute", "127.0.0.1"}));
    come.push_back(std::move(connection));
  };
  auto listener =
      control::Listener::open(*loop, *timers, *std::move(socket), plan, std::move(events));
  ASSERT_TRUE(listener.ok());
  const auto begun = std::chrono::steady_clock::now();
  Agent& agent = join(given(1), (*listener)->port());
  ASSERT_TRUE(run_until([&] { return come.size() == 3; }));
  EXPECT_GT(std::chrono::steady_clock::now() - begun, 1200ms) << "each for L / 3";
  EXPECT_EQ(agent.closed, 0);
  ASSERT_TRUE(run_until([&] { return agent.opened == 3; }));
  come.back()->close();
  ASSERT_TRUE(run_until([&] { return agent.closed == 1; })) << "by the other side";
  ASSERT_TRUE(run_until([&] { return agent.opened == 4; }));
  EXPECT_EQ(agent.closed, 1);
  listener->reset();
  ASSERT_TRUE(run_until([&] { return agent.closed == 2; })) << "nobody listens any more";
  EXPECT_TRUE(come.back()->is_open());
}

// Its name is not resolved any more, leads to nobody, or elsewhere since the leader has moved; or
// another run's leader is at the address.
TEST_F(HubTest, TheLastAddressIsDialledBesideTheName) {
  struct Place {
    std::string host;
    bool refuses = false;
    std::unique_ptr<control::Listener> listener = nullptr;
    std::vector<std::shared_ptr<control::Connection>> come = {};
  };
  int at_port = 0;
  const auto open = [&](Place& place) {
    auto socket = control::listen_at(*control::Address::numeric(place.host, at_port));
    ASSERT_TRUE(socket.ok()) << socket.error().message;
    at_port = control::Address::local_of(socket->get())->port();
    control::Listener::Plan plan;
    plan.self = {control::kProtocol, 1, "1.2.3"};
    plan.tls = tls_of(kKey);
    control::Listener::Events events;
    events.come = [&place](std::shared_ptr<control::Connection> connection, std::string_view) {
      connection->hear({});
      place.refuses ? connection->send(*star::encode(
                          message::Refused{message::Reason::kOtherRun, "id", "another run"}))
                    : connection->send(*star::encode(Welcome{"mute", place.host}));
      place.come.push_back(std::move(connection));
    };
    auto made = control::Listener::open(*loop, *timers, *std::move(socket), plan, events);
    ASSERT_TRUE(made.ok());
    place.listener = *std::move(made);
  };
  Place one{"127.0.0.1"}, two{"127.0.0.2"};
  open(one);
  const auto found = std::make_shared<std::atomic<const char*>>("127.0.0.1");
  rules.limit = 60'000'000'000;  // silence is no matter here
  find = [found](const std::string& host, int to) -> Result<std::vector<control::Address>> {
    const std::string now = found->load();
    if (now == "hangs") std::this_thread::sleep_for(6s);
    if (const auto address = control::Address::numeric(now, to)) return std::vector{*address};
    return Error{ErrorKind::kUnavailable, "'" + host + "' leads to no address"};
  };
  Agent& agent = join(given(1), at_port);
  ASSERT_TRUE(run_until([&] { return agent.opened == 1; }));
  for (const char* elsewhere : {"", "127.0.0.9", "hangs"}) {
    *found = elsewhere;
    const int opened = agent.opened;
    one.come.back()->close();
    const std::size_t came = one.come.size();
    one.listener.reset();  // refused, for a moment
    run_for(100ms);
    ASSERT_EQ(one.come.size(), came);
    open(one);
    EXPECT_TRUE(run_until([&] { return agent.opened == opened + 1; }, 4s)) << elsewhere;
  }
  open(two);
  *found = "127.0.0.2";
  one.listener.reset();
  one.come.clear();
  ASSERT_TRUE(run_until([&] { return agent.opened == 5; }, 20s));
  EXPECT_EQ(two.come.size(), 1u);
  two.refuses = true;  // as another run's leader
  open(one);
  *found = "127.0.0.1";
  two.come.back()->close();
  ASSERT_TRUE(run_until([&] { return agent.opened == 6; }, 20s));
  EXPECT_FALSE(agent.refused);
  EXPECT_EQ(agent.closed, 5);
}

TEST_F(HubTest, GarbageAndSilenceBehindAHelloDisturbNobody) {
  run_three();
  std::vector<std::unique_ptr<Stranger>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(stranger(100 + static_cast<std::uint64_t>(i)));
    if (i > 0) say(*all.back(), hello(9));
  }
  all[0]->connection->send("no hello");
  all[1]->connection->send(std::string(control::kMostFrameBytes, '\xff'));
  all[2]->connection->send("\x04");
  // The fourth says nothing more.
  ASSERT_TRUE(run_until([&] { return open(all) == 1; }));
  EXPECT_FALSE(all[3]->ended);
  EXPECT_TRUE(run_until([&] { return open(all) == 0; }, 8s)) << "and goes after 5 s";
  still_runs();
}

TEST_F(HubTest, AFloodOfHellosIsBounded) {
  run_three();
  std::vector<std::unique_ptr<Stranger>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(stranger(100 + static_cast<std::uint64_t>(i)));
    say(*all.back(), hello(9));
    nodes::NodeWord word;
    word.row = row(given(100 + i));
    word.sent = clock_ns(CLOCK_BOOTTIME);
    say(*all.back(), word);
  }
  ASSERT_TRUE(run_until([&] { return all.back()->last<Welcome>() != nullptr; }));
  run_for(200ms);
  EXPECT_LE(open(all), 2 * 3 + 16);
  EXPECT_TRUE(all.front()->ended) << "the oldest goes";
  still_runs();
}

// Who waits for a rank is not pushed out by those of another address; of one address the oldest is.
TEST_F(HubTest, ANodeThatCameBeforeAFloodComesAgain) {
  lead();
  Agent& early = join(1);
  ASSERT_TRUE(run_until([&] { return early.words > 0; }));
  std::vector<std::unique_ptr<Stranger>> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(stranger(100 + static_cast<std::uint64_t>(i)));
    say(*all.back(), hello(9));
  }
  all.clear();
  join(2);
  EXPECT_TRUE(run_until([&] { return all_run(1); }));
}

// One that has the key and a rank, and says anything: the others never have two attempts at once,
// and nothing overflows.
TEST_F(HubTest, ABrokenNodeOfThisRun) {
  rules.max_restarts = 1'000'000;
  lead();
  join(1);
  std::mt19937_64 draw(1);
  const auto odd = [&]() -> std::uint64_t {
    const std::uint64_t values[] = {0,
                                    1,
                                    2,
                                    3,
                                    draw() % 10,
                                    static_cast<std::uint64_t>(INT32_MAX),
                                    static_cast<std::uint64_t>(INT32_MAX) + 1,
                                    ~0ull - draw() % 3,
                                    1ull << 63,
                                    clock_ns(CLOCK_BOOTTIME) + draw() % 5'000'000'000};
    return values[draw() % std::size(values)];
  };
  const Deadline end = Deadline::in(3s), most = Deadline::in(60s);
  std::unique_ptr<Stranger> broken;
  int said = 0, dropped = 0, honest = 0;
  const auto is_enough = [&] { return said > 50 && honest > 20 && dropped > 5; };
  while (!end.passed() || (!is_enough() && !most.passed())) {
    if (!broken || broken->ended) {
      dropped += broken ? 1 : 0;
      broken = stranger(500 + static_cast<std::uint64_t>(dropped % 3));
      say(*broken, hello(9));
    }
    const auto* heard = broken->last<nodes::LeaderWord>();
    nodes::NodeWord word;
    word.row = row(given(499 + dropped % 3));
    word.has_lock = true;
    word.sent = clock_ns(CLOCK_BOOTTIME);
    if (heard != nullptr) {
      word.run = heard->run;
      word.leader = heard->incarnation;
      word.echo = heard->sent;
      word.told = heard->attempt;
      ++honest;
    }
    for (std::uint64_t i = draw() % 3; i > 0; --i) {
      std::uint64_t* const fields[] = {&word.told, &word.ran,  &word.alive, &word.ended,
                                       &word.sent, &word.echo, &word.run,   &word.row.incarnation};
      *fields[draw() % std::size(fields)] = odd();
    }
    if (draw() % 8 == 0)
      word.failure = nodes::Failure{odd(), odd(), std::string(draw() % 1'000'000, '\x1b'),
                                    static_cast<int>(odd())};
    if (draw() % 16 == 0)
      word.store = nodes::Store{odd(), "\x1b[31m\n", static_cast<int>(odd()), draw() % 2 == 0};
    if (draw() % 16 == 0) word.row.workers = static_cast<std::uint32_t>(odd());
    if (draw() % 16 == 0) word.row.rank = static_cast<int>(odd());
    say(*broken, word);
    ++said;
    for (int i = 0; i < 3; ++i) turn();
    broken->heard.erase(broken->heard.begin(),
                        broken->heard.end() - std::min<long>(1, std::ssize(broken->heard)));
  }
  EXPECT_TRUE(is_enough()) << said << ", " << honest << ", " << dropped;
  EXPECT_EQ(log.find('\x1b'), std::string::npos);
  EXPECT_THAT(log, HasSubstr("says what cannot be true"));
  EXPECT_LT(log.size(), 200'000u);
}

}  // namespace
}  // namespace lockstep::star::test
