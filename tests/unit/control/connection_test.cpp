// Connections over loopback: who gets in, who is told what, and how a connection ends.
#include "control/connection.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "unit/control/net.h"

namespace lockstep::control::test {
namespace {

using testing::HasSubstr;

class Connections : public Net {};

TEST_F(Connections, FramesGoBothWaysInOrder) {
  for (const bool with_key : {true, false}) {
    Listener::Plan plan = listener_plan();
    if (!with_key) plan.tls = nullptr;
    listen(std::move(plan));
    come_.clear();
    std::vector<std::shared_ptr<Peer>> dialled;
    for (const std::uint64_t incarnation : {2u, 3u, 4u}) {
      Dial::Plan to = dial_plan(incarnation);
      if (!with_key) to.tls = nullptr;
      dialled.push_back(dial(std::move(to)).peer);
      ASSERT_TRUE(dialled.back());
      dialled.back()->connection->send("from " + std::to_string(incarnation));
    }
    ASSERT_TRUE(run_until([&] { return come_.size() == 3; }));
    std::vector<std::string> first;
    for (const auto& peer : come_) {
      first.push_back(peer->frames.at(0));
      ASSERT_TRUE(peer->connection->remote());
      EXPECT_EQ(peer->connection->remote()->host(), "127.0.0.1");
      EXPECT_EQ(peer->connection->local()->host(), "127.0.0.1");
      for (int i = 0; i < 100; ++i) peer->connection->send("answer " + std::to_string(i));
    }
    std::ranges::sort(first);
    EXPECT_EQ(first, (std::vector<std::string>{"from 2", "from 3", "from 4"}));
    for (const auto& peer : dialled) {
      ASSERT_TRUE(run_until([&] { return peer->frames.size() == 100; }));
      EXPECT_EQ(peer->frames.front(), "answer 0");
      EXPECT_EQ(peer->frames.back(), "answer 99");
    }
    EXPECT_EQ(listener_->waiting(), 0u);
    EXPECT_TRUE(turned_away_.empty());
  }
}

TEST_F(Connections, AFrameMayHaveAMebibyteAndNoMore) {
  listen(listener_plan());
  const Met met = meet();
  const auto &one = met.one, &other = met.other;
  std::string large(kMostFrameBytes, 'x');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  other->connection->send(large);
  one->connection->send("x");
  ASSERT_TRUE(run_until([&] { return !one->frames.empty() && other->frames.size() == 2; }));
  EXPECT_EQ(one->frames[0], large);
  one->connection->send(large + "x");
  ASSERT_TRUE(run_until([&] { return one->ended.has_value(); }));
  EXPECT_EQ(one->ended->outcome, Outcome::kBroken);
  EXPECT_THAT(one->ended->text, HasSubstr("1048577 bytes, limit 1048576"));
}

TEST_F(Connections, AGoodbyeAnEndAndAResetAreDifferent) {
  listen(listener_plan());
  {
    const Met met = meet();
    const auto &one = met.one, &other = met.other;
    one->connection->send("last words");
    one->connection->close();
    ASSERT_TRUE(run_until([&] { return other->ended.has_value(); }));
    EXPECT_EQ(other->frames.back(), "last words");
    EXPECT_EQ(other->ended->outcome, Outcome::kClosed);
    EXPECT_FALSE(one->ended);
    EXPECT_TRUE(run_turns([&] { return one->connection->is_over(); }, 50));
  }
  {
    Met met = meet();
    auto &one = met.one, &other = met.other;
    one->connection.reset();
    ASSERT_TRUE(run_until([&] { return other->ended.has_value(); }));
    EXPECT_EQ(other->ended->outcome, Outcome::kGone);
  }
  // What lies unread when a socket closes resets the connection; of much that is sent, a send that
  // goes on with it hears so.
  for (const std::size_t bytes : {10'000, 1'000'000}) {
    Met met = meet();
    auto &one = met.one, &other = met.other;
    other->connection->send(std::string(bytes, 'x'));
    one->connection.reset();
    ASSERT_TRUE(run_until([&] { return other->ended.has_value(); }));
    EXPECT_EQ(other->ended->outcome, Outcome::kReset);
  }
}

// A frame that was on its way arrives, though the other side closes with much unread.
TEST_F(Connections, WhatWasSentBeforeAGoodbyeArrives) {
  listen(listener_plan());
  const Met met = meet();
  const auto &one = met.one, &other = met.other;
  for (int i = 0; i < 300; ++i) one->connection->send(std::string(1000, 'x'));
  other->connection->send("refused: because");
  other->connection->close();
  ASSERT_TRUE(run_until([&] { return one->ended.has_value(); }));
  EXPECT_EQ(one->frames, std::vector<std::string>{"refused: because"});
  EXPECT_EQ(one->ended->outcome, Outcome::kClosed);
}

TEST_F(Connections, WhoDoesNotReadIsCutOff) {
  listen(listener_plan());
  const Met met = meet();
  const auto &one = met.one, &other = met.other;
  // The other side's loop is this one, so its socket has to be full: as much as it takes at once.
  for (int i = 0; i < 64 && !one->ended; ++i)
    other->connection->send(std::string(kMostFrameBytes, 'x'));
  ASSERT_TRUE(run_until([&] { return other->ended.has_value(); }));
  EXPECT_EQ(other->ended->outcome, Outcome::kOverrun);
  EXPECT_THAT(other->ended->text, HasSubstr("does not read"));
}

// The outcome on the side that dials, and on the one that listens.
TEST_F(Connections, AWrongKeyIsToldOnBothSides) {
  listen(listener_plan());
  Dial::Plan plan = dial_plan();
  plan.tls = tls_of(kOtherKeyText);
  const Dialled dialled = dial(std::move(plan));
  EXPECT_EQ(dialled.failure.outcome, Outcome::kWrongKey) << dialled.failure.text;
  EXPECT_THAT(dialled.failure.text, HasSubstr("127.0.0.1:" + std::to_string(port_)));
  ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kWrongKey) << turned_away_[0].text;
  EXPECT_TRUE(come_.empty());
}

TEST_F(Connections, AMissingKeyIsToldOnBothSides) {
  listen(listener_plan());
  Dial::Plan plan = dial_plan();
  plan.tls = nullptr;
  Dialled dialled = dial(plan);
  EXPECT_EQ(dialled.failure.outcome, Outcome::kKeyMissing) << dialled.failure.text;
  EXPECT_THAT(dialled.failure.text, HasSubstr("wants a key"));
  ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kKeyMissing);
  Listener::Plan keyless = listener_plan();
  keyless.tls = nullptr;
  turned_away_.clear();
  listen(std::move(keyless));
  dialled = dial(dial_plan());
  EXPECT_EQ(dialled.failure.outcome, Outcome::kKeyMissing) << dialled.failure.text;
  EXPECT_THAT(dialled.failure.text, HasSubstr("has no key"));
  ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kKeyMissing);
}

TEST_F(Connections, AnotherVersionIsToldOnBothSides) {
  for (const bool with_key : {true, false}) {
    Listener::Plan listening = listener_plan();
    if (!with_key) listening.tls = nullptr;
    turned_away_.clear();
    listen(std::move(listening));
    Dial::Plan plan = dial_plan();
    if (!with_key) plan.tls = nullptr;
    plan.self = {kProtocol + 1, 2, "9.9"};
    const Dialled dialled = dial(std::move(plan));
    EXPECT_EQ(dialled.failure.outcome, Outcome::kOtherVersion) << dialled.failure.text;
    EXPECT_THAT(dialled.failure.text, HasSubstr("Lockstep 1.2.3"));
    EXPECT_THAT(dialled.failure.text, HasSubstr("Lockstep 9.9"));
    ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
    EXPECT_EQ(turned_away_[0].outcome, Outcome::kOtherVersion) << turned_away_[0].text;
    EXPECT_THAT(turned_away_[0].text, HasSubstr("Lockstep 9.9"));
  }
}

// A reflected connection, or an endpoint that leads back.
TEST_F(Connections, OneToItselfIsRefused) {
  listen(listener_plan());
  const Dialled dialled = dial(dial_plan(1));
  EXPECT_EQ(dialled.failure.outcome, Outcome::kItself) << dialled.failure.text;
  ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kItself);
}

TEST_F(Connections, RunsOfOtherIdsGetInToBeToldSo) {
  listen(listener_plan());
  Dial::Plan plan = dial_plan();
  plan.run_id = "another";
  EXPECT_TRUE(dial(std::move(plan)).peer);
}

// What is no launcher at all, from its first bytes; and what answers it.
TEST_F(Connections, StrangersAreToldWhatThisPortIs) {
  for (const bool with_key : {true, false}) {
    Listener::Plan plan = listener_plan();
    if (!with_key) plan.tls = nullptr;
    listen(std::move(plan));
    for (const auto& [said, shown, answer] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"GET / HTTP/1.1\r\n\r\n", "'GET / HTTP/1.1", "Lockstep's launchers"},
             {"SSH-2.0-x\r\n", "'SSH-2.0-x", ""},
             {std::string(1, '\0') + "\xce\xf7\x85\x3c", "TCPStore", ""},
             {"\xff\x1b[31m", "\\x", ""},
             {with_key ? std::string("\x16\x03\x01\x00\x05hello", 10) : "LOCKSMITH",
              "no launcher of Lockstep", ""}}) {
      turned_away_.clear();
      const UniqueFd socket = stranger();
      ASSERT_EQ(::send(socket.get(), said.data(), said.size(), 0),
                static_cast<ssize_t>(said.size()));
      EXPECT_THAT(read_all(socket), HasSubstr(answer));
      ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
      EXPECT_EQ(turned_away_[0].outcome, Outcome::kNotLockstep) << turned_away_[0].text;
      EXPECT_THAT(turned_away_[0].text, HasSubstr(shown));
      EXPECT_THAT(turned_away_[0].text, testing::Not(HasSubstr("\x1b")));
    }
  }
}

TEST_F(Connections, ClientsOfAStoreAreHandedOnWithAllTheyHaveSaid) {
  takes_store_clients_ = true;
  listen(listener_plan());
  const UniqueFd client = stranger();
  ASSERT_EQ(::send(client.get(), "\0query", 6, 0), 6);
  ASSERT_TRUE(run_until([&] { return !store_clients_.empty(); }));
  char bytes[8] = {};
  ASSERT_EQ(::recv(store_clients_[0].get(), bytes, sizeof bytes, MSG_DONTWAIT), 6);
  EXPECT_EQ(std::memcmp(bytes, "\0query", 6), 0);
  EXPECT_EQ(listener_->waiting(), 0u);
  EXPECT_TRUE(turned_away_.empty());
  EXPECT_TRUE(meet().one);  // and launchers by the same port
}

// Some are let in and have not said anything yet, some are queued; a launcher is among both.
TEST_F(Connections, ClientsOfAStoreOfBeforeAreDropped) {
  takes_store_clients_ = true;
  Listener::Plan plan = listener_plan();
  plan.tls = nullptr;
  plan.most_waiting = 4;
  listen(std::move(plan));
  const UniqueFd early_launcher = stranger(), early = stranger(), silent = stranger();
  ASSERT_TRUE(run_until([&] { return listener_->waiting() == 3; }));
  ASSERT_EQ(::send(early_launcher.get(), "L", 1, 0), 1);
  ASSERT_EQ(::send(early.get(), "\0query", 6, 0), 6);
  std::vector<UniqueFd> queued(20);
  for (UniqueFd& each : queued) {
    each = stranger();
    ASSERT_EQ(::send(each.get(), "\0query", 6, 0), 6);
  }
  const UniqueFd late_launcher = stranger();
  listener_->drop_store_clients();
  EXPECT_EQ(listener_->waiting(), 3u);  // the launchers, and who has said nothing
  EXPECT_EQ(read_all(early), "");
  for (const UniqueFd& each : queued) EXPECT_EQ(read_all(each), "");
  EXPECT_TRUE(store_clients_.empty() && turned_away_.empty());
  ASSERT_EQ(::send(silent.get(), "\0", 1, 0), 1);
  EXPECT_TRUE(run_until([&] { return store_clients_.size() == 1; }));
}

// Of those who have the key: what is no frame ends their connection alone.
TEST_F(Connections, AGiantLengthEndsOneConnectionAlone) {
  Listener::Plan plan = listener_plan();
  plan.tls = nullptr;
  listen(std::move(plan));
  for (const std::uint32_t size : {0xffffffffu, 0x40000000u, 65'537u}) {
    turned_away_.clear();
    const UniqueFd socket = stranger();
    const std::string said =
        preface_of(party(9)) + std::string(reinterpret_cast<const char*>(&size), sizeof size);
    ASSERT_EQ(::send(socket.get(), said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
    EXPECT_THAT(read_all(socket), HasSubstr("LOCKSTEP"));
    ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
    EXPECT_EQ(turned_away_[0].outcome, Outcome::kBroken);
    EXPECT_THAT(turned_away_[0].text, HasSubstr(std::to_string(size) + " bytes, limit 65536"));
  }
}

TEST_F(Connections, EndlessOpeningsAreCutOff) {
  listen(listener_plan());
  const UniqueFd socket = stranger();
  // Records of TLS that are no greeting, and one that never ends.
  const std::string said =
      std::string("\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb", 9) + std::string(40'000, 'x');
  (void)!::send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ASSERT_TRUE(run_until([&] { return !turned_away_.empty(); }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kNotLockstep) << turned_away_[0].text;
}

// Whoever says nothing, or not enough, at any point of the way in.
TEST_F(Connections, HalfOpenOnesAreCutOffAfterTheirTime) {
  Listener::Plan plan = listener_plan();
  plan.patience = 2s;
  listen(std::move(plan));
  const UniqueFd silent = stranger(), one_byte = stranger();
  ASSERT_EQ(::send(one_byte.get(), "\x16", 1, 0), 1);
  const Dialled wordless = dial(dial_plan());  // has the key, and sends no frame
  ASSERT_TRUE(wordless.peer);
  ASSERT_TRUE(run_until([&] { return turned_away_.size() == 3; }));
  for (const Failure& failure : turned_away_) EXPECT_EQ(failure.outcome, Outcome::kTooLate);
  EXPECT_EQ(read_all(silent), "");
  EXPECT_EQ(read_all(one_byte), "");
  EXPECT_TRUE(run_until([&] { return wordless.peer->ended.has_value(); }));
  EXPECT_EQ(listener_->waiting(), 0u);
}

TEST_F(Connections, AFloodHurtsNobodyElse) {
  Listener::Plan plan = listener_plan();
  plan.most_waiting = 20;
  listen(std::move(plan));
  const Met met = meet();
  const auto &one = met.one, &other = met.other;
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 200; ++i) {
    flood.push_back(stranger());
    loop_->run_once(Deadline::in(1ms));
    EXPECT_LE(listener_->waiting(), 20u);
  }
  ASSERT_TRUE(run_until([&] { return turned_away_.size() >= 180; }));
  EXPECT_EQ(turned_away_[0].outcome, Outcome::kTooMany);
  // The oldest go, so whoever comes now gets in.
  EXPECT_TRUE(meet(3).one);
  one->connection->send("still here");
  EXPECT_TRUE(run_until([&] { return other->frames.back() == "still here"; }));
}

// Those of the address that has most of them make room.
TEST_F(Connections, AFloodFromOneAddressDisplacesItselfAlone) {
  Listener::Plan plan = listener_plan();
  plan.most_waiting = 10;
  listen(std::move(plan));
  UniqueFd from_elsewhere(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto elsewhere = Address::numeric("127.0.0.2", 0),
             to = Address::numeric("127.0.0.1", port_);
  ASSERT_EQ(::bind(from_elsewhere.get(), elsewhere->data(), elsewhere->size()), 0);
  ASSERT_EQ(::connect(from_elsewhere.get(), to->data(), to->size()), 0);
  ASSERT_TRUE(run_until([&] { return listener_->waiting() == 1; }));
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(stranger());
  ASSERT_TRUE(run_until([&] { return turned_away_.size() == 41; }));
  for (const Failure& failure : turned_away_) EXPECT_THAT(failure.text, HasSubstr("127.0.0.1:"));
}

TEST_F(Connections, OnThisMachineThisUserNeedsNoKey) {
  port_ = static_cast<int>(::getpid());  // a name of its own for each test
  Listener::Plan plan = listener_plan();
  plan.tls = nullptr;
  plan.on_this_machine = true;
  listen(plan);
  EXPECT_FALSE(listen_on_this_machine(port_).ok());
  Dial::Plan to = dial_plan();
  to.on_this_machine = true;
  const Dialled dialled = dial(to);
  ASSERT_TRUE(dialled.peer) << dialled.failure.text;
  dialled.peer->connection->send("hello");
  ASSERT_TRUE(run_until([&] { return come_.size() == 1; }));
  EXPECT_FALSE(come_[0]->connection->remote());
  to.port = port_ + 1;
  EXPECT_EQ(dial(to).failure.outcome, Outcome::kRefused);
}

// Each with its own key, connected one after the other; how long and how much is noted.
TEST_F(Connections, TwoHundredDialAtOnce) {
  constexpr std::size_t kAgents = 200;
  listen(listener_plan());
  const auto begin = Deadline::Clock::now();
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::vector<std::unique_ptr<Dial>> dials;
  std::vector<std::shared_ptr<Connection>> connected;
  for (std::size_t i = 0; i < kAgents; ++i) {
    Dial::Plan plan = dial_plan(100 + i);
    plan.patience = 20s;
    dials.push_back(Dial::start(*loop_, *timers_, std::move(plan),
                                [&](std::shared_ptr<Connection> connection, const Failure& why) {
                                  ASSERT_TRUE(connection) << why.text;
                                  connection->send("hello");
                                  connected.push_back(std::move(connection));
                                }));
  }
  ASSERT_TRUE(run_until([&] { return come_.size() == kAgents; }));
  ::getrusage(RUSAGE_SELF, &after);
  const std::chrono::duration<double> took = Deadline::Clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  RecordProperty("kib_of_both_ends", std::to_string((after.ru_maxrss - before.ru_maxrss) / 200));
  std::printf("200 agents: %.3f s, %ld KiB a connection, both ends\n", took.count(),
              (after.ru_maxrss - before.ru_maxrss) / 200);
  for (const auto& peer : come_) peer->connection->send("welcome");
  std::size_t ended = 0;
  for (const auto& connection : connected) {
    Connection::Events events;
    events.ended = [&](const Failure& failure) { ended += failure.outcome == Outcome::kClosed; };
    connection->hear(std::move(events));
  }
  for (const auto& peer : come_) peer->connection->close();
  EXPECT_TRUE(run_until([&] { return ended == kAgents; }));
}

}  // namespace
}  // namespace lockstep::control::test
