// The ways in which nobody is reached, and names with several addresses.
#include "control/dial.h"

#include <poll.h>

#include <atomic>
#include <thread>

#include "unit/control/net.h"

namespace lockstep::control::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class Dials : public Net {
 protected:
  static FindAddresses finds(std::vector<std::string> hosts) {
    return
        [hosts = std::move(hosts)](const std::string&, int port) -> Result<std::vector<Address>> {
          std::vector<Address> found;
          for (const std::string& host : hosts) found.push_back(*Address::numeric(host, port));
          return found;
        };
  }
  Failure failure_of(Dial::Plan plan) {
    const Dialled dialled = dial(std::move(plan));
    EXPECT_FALSE(dialled.peer);
    return dialled.failure;
  }
};

int a_free_port() {
  const auto socket = listen_everywhere(0);
  return Address::local_of(socket->get())->port();
}

// Dropped: what fills a listener's backlog is not answered, as behind a firewall.
struct FullListener {
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::vector<UniqueFd> waiting;
  int port = 0;
  FullListener() {
    const auto any = Address::numeric("127.0.0.1", 0);
    EXPECT_EQ(::bind(listener.get(), any->data(), any->size()), 0);
    EXPECT_EQ(::listen(listener.get(), 0), 0);
    const auto address = Address::local_of(listener.get());
    port = address->port();
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(waiting.back().get(), address->data(), address->size());
    }
  }
};

TEST_F(Dials, RefusedDroppedAndUnreachableAreDifferent) {
  Dial::Plan plan = dial_plan();
  plan.port = a_free_port();
  const Failure refused = failure_of(plan);
  EXPECT_EQ(refused.outcome, Outcome::kRefused);
  EXPECT_TRUE(refused.by_this_machine) << "its agent may be the one that leads";
  EXPECT_THAT(refused.text, AllOf(HasSubstr("127.0.0.1:" + std::to_string(plan.port)),
                                  HasSubstr("no launcher listens")));
  const FullListener full;
  plan.port = full.port;
  plan.patience = 300ms;
  const Failure dropped = failure_of(plan);
  EXPECT_EQ(dropped.outcome, Outcome::kDropped) << dropped.text;
  EXPECT_FALSE(dropped.by_this_machine);
  EXPECT_THAT(dropped.text, HasSubstr("no answer within 300 ms"));
  plan.host = "0.0.0.0";
  plan.from = Address::numeric("192.0.2.1", 0);  // no interface has it
  const Failure unreachable = failure_of(plan);
  EXPECT_EQ(unreachable.outcome, Outcome::kUnreachable) << unreachable.text;
}

TEST_F(Dials, NamesThatLeadNowhere) {
  Dial::Plan plan = dial_plan();
  plan.host = "name.invalid";
  plan.find = [](const std::string& host, int) -> Result<std::vector<Address>> {
    return Error{ErrorKind::kUnavailable, "'" + host + "' leads to no address: not known"};
  };
  EXPECT_EQ(failure_of(plan).outcome, Outcome::kNoSuchName);
  EXPECT_THAT(failure_of(plan).text, HasSubstr("'name.invalid'"));
  plan.find = find_addresses;
  plan.host = "fe80::1%no_such_interface";
  EXPECT_THAT(failure_of(plan).text, HasSubstr("no interface of this machine"));
}

TEST_F(Dials, ALookUpThatHangsHoldsNobodyUp) {
  std::atomic<bool> go_on{false};
  std::atomic<int> begun{0}, ended{0};
  Dial::Plan plan = dial_plan();
  plan.host = "slow.invalid";
  plan.patience = 50ms;
  plan.find = [&](const std::string&, int) -> Result<std::vector<Address>> {
    ++begun;
    while (!go_on) std::this_thread::sleep_for(1ms);
    ++ended;
    return Error{ErrorKind::kUnavailable, "late"};
  };
  for (int i = 0; i < LookUp::kMostLookUps; ++i) {
    const Failure failure = failure_of(plan);
    EXPECT_EQ(failure.outcome, Outcome::kNoSuchName);
    EXPECT_THAT(failure.text, HasSubstr("no answer within 50 ms"));
  }
  EXPECT_THAT(failure_of(plan).text, HasSubstr("16 look-ups are not answered yet"));
  EXPECT_TRUE(run_until([&] { return begun == LookUp::kMostLookUps; }));
  go_on = true;
  EXPECT_TRUE(run_until([&] { return ended == LookUp::kMostLookUps; }));
}

TEST_F(Dials, OneOfSeveralAddressesIsEnough) {
  listen(listener_plan());
  Dial::Plan plan = dial_plan();
  plan.host = "name.invalid";
  // Refused, of the other family, and the one.
  plan.find = finds({"127.0.0.9", "::1", "127.0.0.1"});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(dial(plan).peer);
  const FullListener full;
  plan.find = [&](const std::string&, int) -> Result<std::vector<Address>> {
    return std::vector{*Address::numeric("127.0.0.1", full.port),
                       *Address::numeric("127.0.0.1", port_)};
  };
  const auto begin = Deadline::Clock::now();
  const Dialled dialled = dial(plan);
  ASSERT_TRUE(dialled.peer) << dialled.failure.text;
  EXPECT_LT(Deadline::Clock::now() - begin, 3s);  // not after the first one's time
  EXPECT_THAT(dialled.peer->connection->name(), HasSubstr("name.invalid:"));
  EXPECT_THAT(dialled.peer->connection->name(), HasSubstr("(127.0.0.1)"));
}

// A family that is dead keeps nobody from the launcher that is about to listen in the other one.
TEST_F(Dials, WhereOneRefusesTheSilentOnesAreGivenUpSoon) {
  const FullListener full;
  Dial::Plan plan = dial_plan();
  plan.host = "name.invalid";
  const int port = a_free_port();
  plan.find = [&](const std::string&, int) -> Result<std::vector<Address>> {
    return std::vector{*Address::numeric("127.0.0.1", full.port),
                       *Address::numeric("127.0.0.1", port)};
  };
  const auto begin = Deadline::Clock::now();
  const Failure failure = failure_of(plan);
  EXPECT_LT(Deadline::Clock::now() - begin, 4s);  // not 5 s
  EXPECT_EQ(failure.outcome, Outcome::kRefused);
  EXPECT_THAT(failure.text, AllOf(HasSubstr("refused"), HasSubstr("no answer within 1500 ms")));
}

TEST_F(Dials, OfSeveralFailuresEachIsTold) {
  Dial::Plan plan = dial_plan();
  plan.port = a_free_port();
  plan.host = "name.invalid";
  plan.find = finds({"::1", "127.0.0.1"});
  plan.from = Address::numeric("127.0.0.1", 0);
  const Failure failure = failure_of(plan);
  EXPECT_EQ(failure.outcome, Outcome::kRefused);
  EXPECT_THAT(failure.text, AllOf(HasSubstr("(127.0.0.1): refused"), HasSubstr("(::1): ")));
}

// What listens there is another program.
TEST_F(Dials, WhoAnswersInAnotherWayIsNoLauncher) {
  for (const auto& [answer, outcome] : std::vector<std::pair<std::string, Outcome>>{
           {"SSH-2.0-OpenSSH_9.2\r\n", Outcome::kNotLockstep},
           {"HTTP/1.1 400 Bad Request\r\n\r\n", Outcome::kNotLockstep},
           {std::string("\x15\x03\x01\x00\x02\x02\x28", 7), Outcome::kNotLockstep},
           {"", Outcome::kGone}}) {
    const auto socket = listen_everywhere(0);
    ASSERT_TRUE(socket.ok());
    std::thread program([&, said = answer] {
      for (int i = 0; i < 2; ++i) {
        pollfd ready{socket->get(), POLLIN, 0};
        if (::poll(&ready, 1, 20'000) != 1) return;
        const UniqueFd client(::accept(socket->get(), nullptr, nullptr));
        char bytes[4096];
        (void)!::recv(client.get(), bytes, sizeof bytes, 0);
        (void)!::send(client.get(), said.data(), said.size(), MSG_NOSIGNAL);
      }
    });
    Dial::Plan plan = dial_plan();
    plan.port = Address::local_of(socket->get())->port();
    const Failure failure = failure_of(plan);
    EXPECT_EQ(failure.outcome, outcome) << failure.text;
    plan.tls = nullptr;
    EXPECT_EQ(failure_of(plan).outcome, answer.empty() ? Outcome::kGone : Outcome::kNotLockstep);
    program.join();
  }
}

TEST_F(Dials, WhoAnswersNothingIsGivenUp) {
  const auto socket = listen_everywhere(0);
  Dial::Plan plan = dial_plan();
  plan.port = Address::local_of(socket->get())->port();
  // Once more where the test has got no CPU, and was too late to connect.
  Failure failure;
  for (plan.patience = 200ms; plan.patience < 10s && failure.outcome != Outcome::kTooLate;
       plan.patience *= 2)
    failure = failure_of(plan);
  EXPECT_EQ(failure.outcome, Outcome::kTooLate);
  EXPECT_THAT(failure.text, ContainsRegex("did not say who it is within ([248]00 ms|[0-9.]+ s)"));
}

// Given up at any moment, nothing comes of it.
TEST_F(Dials, MayBeGivenUp) {
  listen(listener_plan());
  for (int rounds = 0; rounds < 12; ++rounds) {
    auto dial = Dial::start(*loop_, *timers_, dial_plan(),
                            [&](const std::shared_ptr<Connection>&, const Failure&) {});
    for (int i = 0; i < rounds; ++i) loop_->run_once(Deadline::in(1ms));
  }
  EXPECT_TRUE(run_until([&] { return listener_->waiting() == 0; }));
}

TEST(Addresses, NumericOnesAreUnderstood) {
  for (const std::string text : {"10.0.0.1", "127.0.1.1", "::1", "2001:db8::1", "fe80::1%lo"}) {
    const auto address = Address::numeric(text, 29'400);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->host(), text);
    EXPECT_EQ(address->port(), 29'400);
  }
  EXPECT_EQ(Address::numeric("::ffff:10.0.0.1", 1)->text(), "10.0.0.1:1");
  EXPECT_EQ(Address::numeric("::1", 1)->text(), "[::1]:1");
  for (const std::string text : {"", "localhost", "fe80::1%none", "1.2.3.4.5", "::g"})
    EXPECT_FALSE(Address::numeric(text, 1)) << text;
}

TEST(Addresses, LeadToAnInterfaceOrToNone) {
  const std::vector<Interface> machine{{"lo", *Address::numeric("127.0.0.1", 0)},
                                       {"eth0", *Address::numeric("10.1.2.3", 0)},
                                       {"eth0", *Address::numeric("2001:db8::3", 0)}};
  EXPECT_EQ(interface_of(*Address::numeric("10.1.2.3", 5), machine), "eth0");
  EXPECT_EQ(interface_of(*Address::numeric("127.0.1.1", 5), machine), "lo");
  EXPECT_EQ(interface_of(*Address::numeric("10.9.9.9", 5), machine), std::nullopt);
}

TEST(Addresses, OfThisMachine) {
  const auto found = interfaces();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(interface_of(*Address::numeric("127.0.0.1", 0), *found), "lo");
}

TEST(Timers, RingInOrderUnlessCancelled) {
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  auto timers = *Timers::open(*loop);
  std::string rung;
  const auto c = timers->in(20ms, [&] { rung += 'c'; });
  auto b = timers->in(15ms, [&] { rung += 'b'; });
  const auto a = timers->in(0ms, [&] {
    rung += 'a';
    b.cancel();
  });
  const auto last = timers->in(30ms, [&] {
    rung += 'd';
    timers.reset();
  });
  const Deadline end = Deadline::in(5s);
  while (timers && !end.passed()) loop->run_once(Deadline::in(100ms));
  EXPECT_EQ(rung, "acd");
}

}  // namespace
}  // namespace lockstep::control::test
