#include "worker/inject.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <stdexcept>

#include "coord/faults.h"

namespace lockstep::worker {
namespace {

using coord::Fault;
using coord::FaultAction;
using coord::parse_faults;
using coord::Phase;

std::string message(std::string_view spec) {
  const auto faults = parse_faults(spec);
  if (faults.ok()) return "";
  EXPECT_EQ(faults.error().kind, ErrorKind::kUsage);
  return faults.error().message;
}

TEST(Faults, ReadsEveryKey) {
  const auto faults = parse_faults(
      "kill rank=1 txn=300 phase=backward share=2 generation=first; exit=7 rank=new repeat=3;");
  ASSERT_TRUE(faults.ok());
  ASSERT_EQ(faults->size(), 2U);
  const Fault& a = (*faults)[0];
  EXPECT_EQ(a.action, FaultAction::kKill);
  EXPECT_EQ(a.rank, Rank(1));
  EXPECT_EQ(a.txn, Txn(300));
  EXPECT_EQ(a.phase, Phase::kBackward);
  EXPECT_EQ(a.share, 2U);
  EXPECT_TRUE(a.first_generation_only);
  const Fault& b = (*faults)[1];
  EXPECT_EQ(b.action, FaultAction::kExit);
  EXPECT_EQ(b.exit_code, 7);
  EXPECT_EQ(b.rank, coord::kNewcomer);
  EXPECT_EQ(parse_faults("kill host=1023")->front().host, 1023);
  EXPECT_EQ(b.repeat, 3U);
  EXPECT_TRUE(parse_faults("")->empty());
  EXPECT_TRUE(parse_faults(" ; ")->empty());
}

TEST(Faults, NamesWhatIsWrong) {
  EXPECT_NE(message("kil rank=1").find("did you mean 'kill'?"), std::string::npos);
  EXPECT_NE(message("kill phase=bakward").find("did you mean 'backward'?"), std::string::npos);
  EXPECT_NE(message("kill rnk=1").find("did you mean 'rank'?"), std::string::npos);
  EXPECT_NE(message("kill rank=x").find("not 'x'"), std::string::npos);
  EXPECT_NE(message("kill rank").find("key=value"), std::string::npos);
  EXPECT_NE(message("kill=3").find("only exit"), std::string::npos);
  EXPECT_NE(message("kill generation=second").find("first or any"), std::string::npos);
  EXPECT_NE(message("kill generation=frist").find("did you mean 'first'?"), std::string::npos);
  EXPECT_NE(message("kill rank=nwe")
                .find("rank takes a whole number up to 1023, any or new, not "
                      "'nwe'; did you mean 'new'?"),
            std::string::npos);
  EXPECT_NE(
      message("kill host=1024").find("host takes a whole number up to 1023 or any, not '1024'"),
      std::string::npos);
  EXPECT_NE(message("kill hots=1").find("did you mean 'host'?"), std::string::npos);
  std::string many;
  for (int i = 0; i < 17; ++i) many += "kill rank=1;";
  EXPECT_NE(message(many).find("at most 16"), std::string::npos);
}

struct Memory {
  ~Memory() { ::munmap(place, coord::fixed_bytes()); }
  void* place = ::mmap(nullptr, coord::fixed_bytes(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  coord::Board board{place, {}};
};

class InjectorTest : public ::testing::Test {
 protected:
  Injector injector(std::string_view spec, std::uint32_t slot = 0, bool first = true) {
    return Injector(*parse_faults(spec), board_, Slot(slot), first);
  }
  Memory memory_;
  coord::Board board_ = memory_.board;
};

TEST_F(InjectorTest, FiresWhereItShouldAndOnce) {
  Injector one = injector("throw rank=1 txn=5 phase=forward share=2");
  one.at(Phase::kForward, Txn(5), Rank(0), 2);
  one.at(Phase::kForward, Txn(4), Rank(1), 2);
  one.at(Phase::kBackward, Txn(5), Rank(1), 2);
  one.at(Phase::kForward, Txn(5), Rank(1), 1);
  one.at(Phase::kForward, Txn(5), Rank(1));
  EXPECT_THROW(one.at(Phase::kForward, Txn(5), Rank(1), 2), std::runtime_error);
  EXPECT_NE(board_.slot(Slot(0)).fault_fired_ns.load(), 0U);
  EXPECT_EQ(board_.slot(Slot(0)).fault_index.load(), 1U);
  one.at(Phase::kForward, Txn(5), Rank(1), 2);
  // Whoever inherits the rank shares the count.
  Injector other = injector("throw rank=1 txn=5 phase=forward share=2", 1);
  other.at(Phase::kForward, Txn(5), Rank(1), 2);
}

// All launchers of a run may be given the same rules.
TEST_F(InjectorTest, FiresOnOneNodeUnlessTold) {
  const auto fires_on = [](std::string_view spec, Rank rank) {
    std::vector<int> nodes;
    for (int node = 0; node < 3; ++node) {
      Memory memory;
      Injector injector(*parse_faults(spec), memory.board, Slot(0), true, node);
      try {
        injector.at(Phase::kData, Txn(0), rank);
      } catch (const std::runtime_error&) {
        nodes.push_back(node);
      }
    }
    return nodes;
  };
  using Nodes = std::vector<int>;
  EXPECT_EQ(fires_on("throw", Rank(5)), Nodes{0});
  EXPECT_EQ(fires_on("throw rank=any txn=0", Rank(5)), Nodes{0});
  EXPECT_EQ(fires_on("throw rank=new", coord::kNewcomer), Nodes{0});
  EXPECT_EQ(fires_on("throw host=2", Rank(5)), Nodes{2});
  EXPECT_EQ(fires_on("throw host=1 rank=new", coord::kNewcomer), Nodes{1});
  EXPECT_EQ(fires_on("throw rank=5 host=1", Rank(5)), Nodes{1});
  EXPECT_EQ(fires_on("throw host=any", Rank(5)), (Nodes{0, 1, 2}));
  EXPECT_EQ(fires_on("throw host=any rank=4", Rank(5)), Nodes{});
  EXPECT_EQ(fires_on("throw rank=5", Rank(5)), (Nodes{0, 1, 2}));  // a rank is on one of them
}

TEST_F(InjectorTest, RepeatsAsOftenAsAsked) {
  Injector one = injector("throw phase=data repeat=2");
  EXPECT_THROW(one.at(Phase::kData, Txn(0), Rank(0)), std::runtime_error);
  EXPECT_THROW(one.at(Phase::kData, Txn(0), Rank(2)), std::runtime_error);
  one.at(Phase::kData, Txn(1), Rank(0));
}

TEST_F(InjectorTest, OnlyInTheFirstStart) {
  Injector later = injector("throw phase=data generation=first", 0, false);
  later.at(Phase::kData, Txn(0), Rank(0));
  EXPECT_EQ(board_.header().fault_fired[0].load(), 0U);
}

TEST_F(InjectorTest, EndsTheProcessAsTold) {
  EXPECT_EXIT(injector("kill").at(Phase::kData, Txn(0), Rank(0)),
              ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(injector("segv").at(Phase::kData, Txn(0), Rank(0)),
              ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(injector("abort").at(Phase::kData, Txn(0), Rank(0)),
              ::testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(injector("exit=9").at(Phase::kData, Txn(0), Rank(0)), ::testing::ExitedWithCode(9),
              "");
}

}  // namespace
}  // namespace lockstep::worker
