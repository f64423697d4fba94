// Each mistake put in on purpose is found, in a run and among faults that give it an occasion.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "shape.h"

namespace lockstep::simulation {
namespace {

struct Mistake {
  std::string name;
  Planted planted;
  Trouble trouble;
  std::uint64_t most = 4000;  // schedules
  double faults = 0;          // their rate; 0: several
};

// Two transactions, one worker a host, and no other faults than these.
Trouble small(std::uint32_t hosts, const Budget& budget) {
  Trouble trouble;
  trouble.shape.workers.assign(hosts, 1);
  trouble.shape.virtual_workers = hosts;
  trouble.shape.chunks = {2};
  trouble.shape.buffers = trouble.shape.rows = false;
  trouble.shape.depth = 1;
  trouble.budget = budget;
  return trouble;
}

// A first host with most of the shares, some of which go to the last one if it dies.
Trouble lopsided(const Budget& budget) {
  Trouble trouble = small(3, budget);
  trouble.shape.workers = {3, 1, 1};
  trouble.shape.virtual_workers = 6;
  trouble.shape.chunks = {1};
  return trouble;
}

constexpr Budget kNone{.workers = 0, .hosts = 0, .breaks = 0};
constexpr Budget kHost{.workers = 0, .hosts = 1, .breaks = 0};
constexpr Budget kDeaths{.workers = 1, .hosts = 1, .breaks = 0};
constexpr Budget kTwoHosts{.workers = 1, .hosts = 2, .breaks = 0};
constexpr Budget kBreak{.workers = 1, .hosts = 2, .breaks = 1};
constexpr Budget kSuspicion{.workers = 1, .hosts = 1, .breaks = 0, .cuts = 1, .suspicions = 1};
constexpr Budget kLeaders{.workers = 0, .hosts = 0, .breaks = 0, .suspicions = 2, .leaders = 3};
constexpr Budget kReturn{.workers = 1, .hosts = 1, .breaks = 0, .returns = 1};
constexpr Budget kReturnLeaders{.workers = 3, .hosts = 0, .breaks = 0, .leaders = 3, .returns = 2};
constexpr Budget kSuspicions{.workers = 1, .hosts = 1, .breaks = 1, .cuts = 1, .suspicions = 2};
constexpr Budget kReplacement{.workers = 1, .hosts = 0, .breaks = 0, .replacements = 1};
constexpr Budget kLink{.workers = 1, .hosts = 1, .breaks = 0, .links = 1, .suspicions = 1};

std::vector<Mistake> mistakes() {
  std::vector<Mistake> all{
      {"two lists", Planted::kTwoLists, small(2, {.workers = 2, .hosts = 1, .breaks = 0})},
      {"append early", Planted::kAppendEarly, small(3, kDeaths)},
      {"index order", Planted::kIndexOrder, small(3, kTwoHosts)},
      {"per bucket", Planted::kPerBucket, small(3, kHost)},
      {"send to the out", Planted::kSendToOut, small(3, kDeaths)},
      {"fill the out", Planted::kFillTheOut, small(3, kDeaths)},
      {"answer early", Planted::kAnswerEarly, small(3, kSuspicion)},
      {"stale fills", Planted::kStaleFills, small(3, kTwoHosts), 20'000},
      {"fills lost", Planted::kFillsLost, small(3, kBreak)},
      {"pair stays closed", Planted::kPairStays, small(3, kDeaths)},
      {"the dead hold nothing", Planted::kXNoHolder, small(3, kDeaths)},
      {"no exclusion", Planted::kNoExclusion, small(3, kBreak)},
      {"scope 0", Planted::kScope0, small(3, kTwoHosts), 10'000},
      {"scope 2", Planted::kScope2, lopsided(kHost), 10'000},
      {"base", Planted::kBase, small(4, {.workers = 3, .hosts = 1, .breaks = 0}), 20'000, 0.03},
      {"no acknowledgement", Planted::kNoAck, small(3, kTwoHosts)},
      {"reopen all", Planted::kReopenAll, small(3, kSuspicion)},
      {"a link forgets", Planted::kLinkForgets, small(3, kLink)},
      {"a leader forgets", Planted::kForget, small(3, kSuspicion)},
      {"no promise", Planted::kNoPromise, small(3, kLeaders), 40'000, 0.2},
      {"a comer answers late", Planted::kComerLate, small(3, kDeaths), 20'000},
      {"a stay again", Planted::kStayAgain, small(3, kReturn)},
      {"a uid again", Planted::kUidAgain, small(2, kReplacement)},
      {"a silent comer", Planted::kComerSilent, small(4, kSuspicions), 20'000},
      {"listed early", Planted::kListedEarly, small(3, kReturnLeaders), 40'000, 0.1},
      {"four tables", Planted::kNone, small(3, kNone)},
      {"three regions", Planted::kNone, small(3, kNone)},
      {"tables not first", Planted::kNoGuard, lopsided(kHost), 40'000, 0.3},
  };
  for (Mistake& mistake : all) {
    Trouble& trouble = mistake.trouble;
    if (mistake.name == "two lists") {
      trouble.shape.workers = {3, 1};
      trouble.shape.virtual_workers = 8;
    } else if (mistake.name == "a leader forgets" || mistake.name == "no promise") {
      trouble.quorum = true;
      trouble.budget.leaders = std::max(trouble.budget.leaders, 1);
    } else if (mistake.name == "four tables" || mistake.name == "three regions") {
      trouble.shape.chunks = {1};
      trouble.shape.transactions = 5;
      trouble.shape.ends = 6;  // t1 and t2
    } else if (mistake.planted == Planted::kComerLate) {
      trouble.shape.chunks = {1};
      trouble.shape.transactions = 3;
      trouble.shape.comers = {2};
    } else if (mistake.planted == Planted::kNoGuard) {
      trouble.shape.virtual_workers = 8;
      trouble.shape.depth = 2;
      trouble.aim = Aim::kOutrunning;
    } else if (mistake.planted == Planted::kComerSilent) {
      trouble.shape.transactions = 5;
      trouble.shape.comers = {3};
    } else if (mistake.planted == Planted::kUidAgain) {
      trouble.shape.workers = {2, 1};
      trouble.shape.virtual_workers = 4;
      trouble.shape.transactions = 4;
    } else if (mistake.planted == Planted::kStayAgain || mistake.planted == Planted::kListedEarly) {
      trouble.shape.transactions = 4;
      trouble.quorum = mistake.planted == Planted::kListedEarly;
    } else if (mistake.planted == Planted::kBase) {
      trouble.aim = Aim::kOutOfTable;
    }
  }
  return all;
}

Outcome play(const Mistake& mistake, std::uint64_t seed, bool planted) {
  constexpr double rates[] = {0.005, 0.01, 0.02, 0.04, 0.08, 0.16};
  Trouble trouble = mistake.trouble;
  trouble.faults = mistake.faults > 0 ? mistake.faults : rates[seed % std::size(rates)];
  if (!planted) return run_hosts(seed, trouble);
  trouble.planted = mistake.planted;
  if (mistake.name == "four tables") trouble.tables = 4;
  if (mistake.name == "three regions") trouble.generations = 3;
  return run_hosts(seed, trouble);
}

TEST(HostsPlanted, NothingIsFoundWithoutThem) {
  for (const Mistake& mistake : mistakes())
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      const Outcome outcome = play(mistake, seed, false);
      ASSERT_EQ(outcome.violation, "") << mistake.name << ", seed " << seed << "\n"
                                       << outcome.journal;
    }
}

#ifndef __SANITIZE_ADDRESS__
TEST(HostsPlanted, EachIsFound) {
  for (const Mistake& mistake : mistakes()) {
    Outcome outcome;
    std::uint64_t seed = 0;
    while (seed < mistake.most && outcome.violation.empty()) outcome = play(mistake, ++seed, true);
    EXPECT_NE(outcome.violation, "") << mistake.name;
    std::cout << mistake.name << ": seed " << seed << ", " << outcome.steps
              << " steps: " << outcome.violation << "\n";
  }
}
#endif

}  // namespace
}  // namespace lockstep::simulation
