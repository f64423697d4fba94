#include "transaction/again_claim.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

namespace lockstep::transaction {
namespace {

constexpr Txn kStep(8), kLater(kStep.value() + coord::kGenerations);

// Whether this member may write the words of that step now; `claim` is the shared word.
using Rule = std::function<bool(std::uint64_t& claim, std::uint64_t mark, Txn txn,
                                std::uint32_t self, const std::array<bool, 3>& alive)>;

bool by_claim(std::uint64_t& claim, std::uint64_t mark, Txn txn, std::uint32_t self,
              const std::array<bool, 3>& alive) {
  coord::Word word{claim};
  const auto is_alive = [&](std::uint32_t member) { return alive[member]; };
  const bool taken = AgainClaim(word).take(txn, self, is_alive);
  claim = word.load();
  return taken && mark < txn.value() + 1;
}

// As it was: whoever finds the words unwritten writes them.
bool by_a_look(std::uint64_t&, std::uint64_t mark, Txn txn, std::uint32_t,
               const std::array<bool, 3>&) {
  return mark < txn.value() + 1;
}

// Members 0 and 1 have both computed a share of kStep again, and 0 is to leave with that step.
// Member 2 does the same share of kLater, whose notes lie where those of kStep did, once 0 is
// waited for no more. Every order of their looks, writes and deaths is gone through.
struct World {
  enum class At { kLooks, kWrites, kMarks, kDone };
  std::uint64_t claim = 0, mark = 0;
  std::uint64_t written = 0;  // the words: of which step
  std::array<At, 3> at{};
  std::array<bool, 3> alive{true, true, true};

  bool whole() const { return mark >= kStep.value() + 1; }
  static Txn step_of(std::uint32_t member) { return member == 2 ? kLater : kStep; }
  bool may_act(std::uint32_t member) const {
    return alive[member] && at[member] != At::kDone && (member != 2 || whole());
  }
  void act(std::uint32_t member, const Rule& rule) {
    const std::uint64_t mine = step_of(member).value() + 1;
    if (at[member] == At::kLooks) {
      at[member] = rule(claim, mark, step_of(member), member, alive) ? At::kWrites : At::kDone;
    } else if (at[member] == At::kWrites) {
      written = mine;
      at[member] = At::kMarks;
    } else {
      mark = mine;
      at[member] = At::kDone;
    }
  }
  // Whoever lives looks once more.
  void die(std::uint32_t member) {
    alive[member] = false;
    const std::uint32_t other = 1 - member;
    if (!whole() && at[other] == At::kDone) at[other] = At::kLooks;
  }
};

struct Outcome {
  int ends = 0, wrong = 0;
};

void go_on(const World& world, const Rule& rule, Outcome& outcome) {
  bool ended = true;
  for (std::uint32_t member = 0; member < 3; ++member) {
    if (!world.may_act(member)) continue;
    ended = false;
    World next = world;
    next.act(member, rule);
    go_on(next, rule, outcome);
    if (member == 2 || !world.alive[1 - member]) continue;
    next = world;
    next.die(member);
    go_on(next, rule, outcome);
  }
  if (!ended) return;
  ++outcome.ends;
  const std::uint64_t later = kLater.value() + 1;
  if (world.mark != later || world.written != later) ++outcome.wrong;
}

TEST(AgainClaim, WhoIsLateWritesOverNoLaterStep) {
  Outcome looked, claimed;
  go_on({}, by_a_look, looked);
  EXPECT_GT(looked.wrong, 0) << "the fault is there to be found, in " << looked.ends << " orders";
  go_on({}, by_claim, claimed);
  EXPECT_GT(claimed.ends, 10);
  EXPECT_EQ(claimed.wrong, 0) << "of " << claimed.ends;
}

// Between the look at who has it and the claim of what a dead one had.
TEST(AgainClaim, WhoIsPausedBeforeItTakesFindsThatOthersHaveIt) {
  for (const Txn txn : {kStep, kLater}) {
    coord::Word word{0};
    AgainClaim claim(word);
    const auto lives = [](std::uint32_t) { return true; };
    ASSERT_TRUE(claim.take(kStep, 1, lives));
    const auto paused = [&](std::uint32_t member) {
      if (member != 1) return true;
      EXPECT_TRUE(claim.take(txn, 2, [](std::uint32_t) { return false; }));
      return false;
    };
    EXPECT_FALSE(claim.take(kStep, 0, paused));
  }
}

TEST(AgainClaim, OnlyTheDeadLoseIt) {
  coord::Word word{0};
  AgainClaim claim(word);
  const auto lives = [](std::uint32_t) { return true; };
  const auto died = [](std::uint32_t member) { return member != 1; };
  EXPECT_TRUE(claim.take(kStep, 1, lives));
  EXPECT_FALSE(claim.take(kStep, 0, lives));
  EXPECT_TRUE(claim.take(kStep, 1, lives));
  EXPECT_TRUE(claim.take(kStep, 0, died));
  EXPECT_TRUE(claim.take(kLater, 1023, lives)) << "whatever an earlier step has left";
  EXPECT_FALSE(claim.take(kStep, 0, died));
}

}  // namespace
}  // namespace lockstep::transaction
