// What fuzz_quorum begins with (tests/fuzz/seeds/fuzz_quorum): a message each, to the fuzzer's
// agent {0, 1} of a set with {1, 2} and {2, 3}. Where a message has other fields than before they
// are worth nothing, and are written anew:
//   quorum_unit_test --gtest_also_run_disabled_tests --gtest_filter='*AreWritten'
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/delta.h"
#include "quorum/wire.h"
#include "support/temp_folder.h"

namespace lockstep::quorum {
namespace {

constexpr Member kSelf{0, 1}, kOther{1, 2}, kThird{2, 3};

Message from_other() {
  Message message;
  message.from = kOther;
  message.sent = 2'000'000, message.echo = 1'000'000, message.term = 1;
  message.hears = message.you_were_in = true;
  return message;
}

Message leads() {
  Message message = from_other();
  message.role = Role::kLeads, message.vote = message.obeys = kOther;
  message.facts = Facts{.stamp = {1, 1},
                        .history = 9,
                        .set = {.id = 9, .members = {kSelf, kOther, kThird}},
                        .run = "state"};
  message.quorum_age = 1'000'000;
  return message;
}

Message with(Message message, const Facts& facts) {
  message.facts = facts;
  return message;
}

void write(const std::string& name, const Message& message, Carried::As as = Carried::kWhole) {
  const std::string facts = encode(*message.facts), empty = encode(Facts());
  const std::string difference = delta_of(empty, facts);
  Carried carried{.name = name_of(message.facts->stamp, facts), .as = as};
  if (as == Carried::kWhole) carried.bytes = facts;
  if (as == Carried::kDifference) carried.base = name_of({}, empty), carried.bytes = difference;
  std::ofstream(std::string(FUZZ_SEEDS) + "/" + name, std::ios::binary) << encode(message, carried);
}

TEST(Seeds, DISABLED_AreWritten) {
  Message asks = from_other();
  asks.role = Role::kAsks, asks.term = 2, asks.vote = kOther;
  asks.hears = false, asks.would = true;
  write("asks", asks, Carried::kName);
  Message votes = from_other();
  votes.vote = votes.obeys = kSelf, votes.would = true;
  write("votes", votes, Carried::kName);
  write("knows_the_facts", leads(), Carried::kName);
  write("leads", leads());
  Message in_force = leads();
  in_force.in_force = {1, 1};
  Facts takes_out = *leads().facts;
  takes_out.change = {.id = 10, .members = {kSelf, kOther}}, takes_out.changes = 1;
  write("takes_one_out", with(in_force, takes_out));
  Facts takes_receiver_out = *leads().facts;
  takes_receiver_out.set = {.id = 10, .members = {kOther, kThird}};
  write("takes_the_receiver_out", with(leads(), takes_receiver_out));
  Message over = leads();
  over.acknowledged = {1, 2}, over.attempt_is_over = true;
  Facts stops = *leads().facts;
  stops.attempt = {1, 1}, stops.stamp = {1, 3};
  stops.stop = Verdict{143, "stopped", true, false};
  write("stops", with(over, stops));
  stops.final = stops.stop;
  write("final", with(over, stops));
  write("difference", leads(), Carried::kDifference);
  Message out = from_other();
  out.from = kThird, out.out = true;
  write("out", out);
}

TEST(Seeds, AreMessages) {
  int count = 0, with_facts = 0;
  for (const auto& seed : std::filesystem::directory_iterator(FUZZ_SEEDS)) {
    const std::string bytes = test::read_text(seed.path());
    const auto said = decode(bytes);
    ASSERT_TRUE(said.ok()) << seed.path() << ": " << said.error().message;
    ++count, with_facts += said->facts.as != Carried::kName;
  }
  EXPECT_GE(count, 9);
  EXPECT_GE(with_facts, 6);
}

}  // namespace
}  // namespace lockstep::quorum
