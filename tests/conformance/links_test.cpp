// One contract for all engines of links: order, whole bodies, both ways at once, and how a stream
// ends.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "links_net.h"

namespace lockstep::links::test {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// One piece again and again, of a length that no frame or packet has.
std::string body_of(std::size_t bytes, unsigned seed) {
  std::string piece(std::min<std::size_t>(bytes, 8191), 0), body;
  for (char& byte : piece) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  body.reserve(bytes);
  while (body.size() < bytes) body.append(piece, 0, bytes - body.size());
  return body;
}

class LinksTest : public testing::TestWithParam<bool> {
 protected:
  static std::span<const std::byte> bytes(const std::string& body) {
    return std::as_bytes(std::span(body));
  }
  Hosts hosts_{GetParam()};
};

TEST_P(LinksTest, FramesOfAllSizesComeWholeAndInOrder) {
  std::vector<Recorder::Frame> sent;
  const std::size_t sizes[] = {0, 1, 3900, 4096, 5000, 0, 128 * 1024, kMostBodyBytes};
  for (unsigned i = 0; i < 64; ++i)
    sent.push_back({"frame " + std::to_string(i), body_of(sizes[i % std::size(sizes)], i)});
  hosts_.join(0, 1);
  for (const auto& frame : sent) hosts_[1].links->send(0, frame.header, bytes(frame.body));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == sent.size(); }));
  EXPECT_TRUE(hosts_[0].told.frames[1] == sent);
  EXPECT_EQ(hosts_[1].links->unsent(0), 0U);
}

TEST_P(LinksTest, BothWaysAtOnceNobodyWaitsForTheOther) {
  hosts_.join(0, 1);
  const std::string body = body_of(kMostBodyBytes, 5);
  for (int i = 0; i < 12; ++i)
    for (const HostIndex host : {HostIndex{0}, HostIndex{1}})
      hosts_[host].links->send(1 - host, "x", bytes(body));
  for (const HostIndex host : {HostIndex{0}, HostIndex{1}}) {
    ASSERT_TRUE(hosts_.until([&] { return hosts_[host].told.frames[1 - host].size() == 12; }));
    EXPECT_THAT(hosts_[host].told.frames[1 - host], Each(Recorder::Frame{"x", body}));
  }
}

TEST_P(LinksTest, OfThreeEachHearsTheOthers) {
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)})
    hosts_.join(static_cast<HostIndex>(one), static_cast<HostIndex>(other));
  for (HostIndex from = 0; from < 3; ++from)
    for (HostIndex to = 0; to < 3; ++to)
      if (from != to) hosts_[from].links->send_copy(to, "h", std::to_string(from * 10 + to));
  for (HostIndex from = 0; from < 3; ++from)
    for (HostIndex to = 0; to < 3; ++to) {
      const auto come = [&] { return from == to || !hosts_[to].told.frames[from].empty(); };
      ASSERT_TRUE(hosts_.until(come));
    }
  EXPECT_EQ(hosts_[2].told.frames[1].at(0).body, "12");
}

TEST_P(LinksTest, WhatNobodyWantsIsReadAndDropped) {
  hosts_.join(0, 1);
  hosts_[0].told.bin = true;
  const std::string body = body_of(300'000, 1);
  hosts_[1].links->send(0, "unwanted", bytes(body));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == 1; }));
  hosts_[0].told.bin = false;
  hosts_[1].links->send(0, "wanted", bytes(body));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == 2; }));
  EXPECT_EQ(hosts_[0].told.frames[1][0], (Recorder::Frame{"unwanted", ""}));
  EXPECT_EQ(hosts_[0].told.frames[1][1], (Recorder::Frame{"wanted", body}));
}

TEST_P(LinksTest, RoomIsToldWhileMostHasGone) {
  hosts_.join(0, 1);
  const std::string body = body_of(kMostBodyBytes, 2);
  int left = 10;
  hosts_[1].told.at_room = [&](HostIndex host) {
    EXPECT_LT(hosts_[1].links->unsent(host), kEnoughUnsent / 2);
    if (left-- > 0) hosts_[1].links->send(host, "more", bytes(body));
  };
  hosts_[1].links->send(0, "first", bytes(body));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == 11; }));
}

TEST_P(LinksTest, ASlowReaderHoldsUpWhoSendsAndLosesNothing) {
  std::vector<std::string> bodies;
  for (unsigned i = 0; i < 20; ++i) bodies.push_back(body_of(kMostBodyBytes, i));
  hosts_.join(0, 1);
  hosts_.relay(0, 1).stall_after(100'000);
  for (const std::string& body : bodies) hosts_[1].links->send(0, "big", bytes(body));
  hosts_.run(100ms);
  EXPECT_GT(hosts_[1].links->unsent(0), 0U);
  EXPECT_THAT(hosts_[0].told.frames[1], IsEmpty());
  hosts_.relay(0, 1).stall(false);
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == bodies.size(); }));
  for (std::size_t i = 0; i < bodies.size(); ++i)
    EXPECT_TRUE(hosts_[0].told.frames[1][i].body == bodies[i]);
}

TEST_P(LinksTest, AStreamThatBreaksInAFrameIsToldAndMadeAgain) {
  hosts_.join(0, 1);
  const std::string body = body_of(kMostBodyBytes, 3);
  for (int i = 0; i < 5; ++i) {
    hosts_.relay(0, 1).close_after(100'000 + 150'000 * static_cast<std::size_t>(i));
    hosts_[1].links->send(0, "half", bytes(body));
    const auto downs = static_cast<std::size_t>(i) + 1;
    ASSERT_TRUE(hosts_.until([&] {
      return hosts_[0].told.downs[1].size() == downs && hosts_[1].told.downs[0].size() == downs &&
             hosts_.are_up(0, 1);
    }));
  }
  EXPECT_THAT(hosts_[0].told.downs[1], Each(AnyOf(Cause::kGone, Cause::kReset)));
  EXPECT_THAT(hosts_[1].told.downs[0], Each(AnyOf(Cause::kGone, Cause::kReset)));
  EXPECT_THAT(hosts_[0].told.frames[1], IsEmpty());
  EXPECT_EQ(hosts_[0].told.landings.size(), 5U);
  hosts_[1].links->send(0, "whole", bytes(body));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.frames[1].size() == 1; }));
  EXPECT_TRUE(hosts_[0].told.frames[1][0].body == body);
}

TEST_P(LinksTest, AHostThatEndsIsToldAndFoundAgain) {
  hosts_.join(0, 1);
  const std::string body = body_of(kMostBodyBytes, 3);
  for (const HostIndex dies : {HostIndex{1}, HostIndex{0}}) {
    const HostIndex stays = 1 - dies;
    hosts_.relay(0, 1).stall_after(50'000);
    hosts_[dies].links->send(stays, "half", bytes(body));
    ASSERT_TRUE(hosts_.until([&] { return !hosts_[stays].told.landings.empty(); }));
    hosts_.kill(dies);
    hosts_.relay(0, 1).stall(false);
    ASSERT_TRUE(hosts_.until([&] { return !hosts_[stays].told.downs[dies].empty(); }));
    EXPECT_THAT(hosts_[stays].told.downs[dies], ElementsAre(AnyOf(Cause::kGone, Cause::kReset)));
    EXPECT_THAT(hosts_[stays].told.frames[dies], IsEmpty());
    hosts_.open(dies, stays);
    ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
  }
}

TEST_P(LinksTest, AConnectionThatNothingCrossesAnyMoreIsSilent) {
  hosts_.limits.silence = 2s;
  hosts_.join(0, 1);
  hosts_.run(100ms);  // pings
  hosts_.relay(0, 1).stall(true);
  ASSERT_TRUE(hosts_.until(
      [&] { return !hosts_[0].told.downs[1].empty() && !hosts_[1].told.downs[0].empty(); }));
  // Whoever finds it first closes it, or has made it anew.
  const Cause one = hosts_[0].told.downs[1][0], other = hosts_[1].told.downs[0][0];
  EXPECT_TRUE(one == Cause::kSilent || other == Cause::kSilent);
  EXPECT_THAT(one, AnyOf(Cause::kSilent, Cause::kGone, Cause::kReplaced));
  EXPECT_THAT(other, AnyOf(Cause::kSilent, Cause::kGone));
  ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
}

TEST_P(LinksTest, WhoDialsAnewTakesThePlaceOfAHalfOpenConnection) {
  hosts_.limits.silence = 60s;
  hosts_.join(0, 1);
  hosts_.relay(0, 1).stall(true);  // host 0 does not learn of the end
  hosts_.kill(1);
  hosts_.open(1, 0);
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.ups[1] == 2; }));
  EXPECT_THAT(hosts_[0].told.downs[1], ElementsAre(Cause::kReplaced));
  hosts_[0].links->send_copy(1, "h", "again");
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[1].told.frames[0].empty(); }));
}

TEST_P(LinksTest, AfterAbortNothingIsWrittenAndNothingIsToldAny) {
  hosts_.join(0, 1);
  hosts_.relay(0, 1).stall_after(500'000);
  const std::string body = body_of(kMostBodyBytes, 4);
  hosts_[1].links->send(0, "half", bytes(body));
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[0].told.landings.empty(); }));
  hosts_.run(50ms);
  hosts_[0].links->abort(1);
  const std::string before = hosts_[0].told.memory[1];
  EXPECT_TRUE(before.starts_with(body.substr(0, 1000)));
  hosts_.relay(0, 1).stall(false);
  hosts_.run(50ms);
  EXPECT_TRUE(hosts_[0].told.memory[1] == before);
  EXPECT_THAT(hosts_[0].told.frames[1], IsEmpty());
  EXPECT_THAT(hosts_[0].told.downs[1], IsEmpty());
  EXPECT_FALSE(hosts_[0].links->is_up(1));
  // It stays closed until it is wanted again.
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[1].told.downs[0].empty(); }));
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[1].told.cannots[0].empty(); }));
  EXPECT_EQ(hosts_[0].told.ups[1], 1);
  hosts_.open(0, 1);
  ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
}

TEST_P(LinksTest, WhatIsRefusedEndsTheStream) {
  hosts_.join(0, 1);
  for (bool Recorder::*refuses : {&Recorder::refuses, &Recorder::refuses_landed}) {
    hosts_[0].told.downs.clear();
    hosts_[0].told.*refuses = true;
    hosts_[1].links->send_copy(0, "bad", "body");
    ASSERT_TRUE(hosts_.until([&] { return !hosts_[0].told.downs[1].empty(); }));
    EXPECT_EQ(hosts_[0].told.downs[1][0], Cause::kBroken);
    EXPECT_THAT(hosts_[0].told.last.text, testing::HasSubstr("refused"));
    hosts_[0].told.*refuses = false;
    ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
  }
}

TEST_P(LinksTest, AnyEventMayAbortItsPair) {
  using At = std::function<void(HostIndex)> Recorder::*;
  for (const At at : {&Recorder::at_up, &Recorder::at_landing, &Recorder::at_landed}) {
    Hosts hosts(GetParam());
    bool aborted = false;
    hosts[0].told.*at = [&](HostIndex host) {
      hosts[0].links->abort(host);
      aborted = true;
    };
    hosts[1].told.at_up = [&](HostIndex host) {
      const std::string body(200'000, 'x');
      hosts[1].links->send_copy(host, "h", body);
      hosts[1].links->send_copy(host, "h", body);
    };
    hosts.open(0, 1);
    hosts.open(1, 0);
    ASSERT_TRUE(hosts.until([&] { return aborted; }));
    hosts.run(30ms);
    EXPECT_FALSE(hosts[0].links->is_up(1));
    EXPECT_LE(hosts[0].told.frames[1].size(), 1U);
    EXPECT_THAT(hosts[0].told.downs[1], IsEmpty());
  }
}

TEST_P(LinksTest, OnlyWhoIsExpectedIsLetIn) {
  hosts_.parties[1] = party(1, 1, 8);  // another attempt than host 0 knows of
  hosts_.open(1, 0);
  const Other expected{party(1, 1, 7), {}, cookie_of(0, 1)};
  hosts_[0].links->open(expected);
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[1].told.cannots[0].empty(); }));
  hosts_.run(100ms);
  EXPECT_EQ(hosts_[0].told.ups[1] + hosts_[1].told.ups[0], 0);
  EXPECT_THAT(hosts_[1].told.cannots[0], ElementsAre(Cause::kTurnedAway));  // told once
  hosts_.open(0, 1);
  ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
}

TEST_P(LinksTest, WhoIsNotThereIsToldOnceAndFoundWhenItComes) {
  (void)hosts_[0];  // its port is known
  hosts_.open(1, 0);
  hosts_.kill(0);
  ASSERT_TRUE(hosts_.until([&] { return !hosts_[1].told.cannots[0].empty(); }));
  hosts_.run(200ms);
  EXPECT_EQ(hosts_[1].told.cannots[0].size(), 1U);
  hosts_.open(0, 1);
  ASSERT_TRUE(hosts_.until([&] { return hosts_.are_up(0, 1); }));
}

INSTANTIATE_TEST_SUITE_P(Engines, LinksTest, testing::Bool(),
                         [](const auto& engine) { return engine.param ? "Tcp" : "Fake"; });

}  // namespace
}  // namespace lockstep::links::test
