#include "coord/recorder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/env.h"
#include "support/temp_folder.h"

namespace lockstep::coord {
namespace {

constexpr Txn after(Txn txn, std::uint64_t count) { return Txn(txn.value() + count); }

// A host's board with one worker, who owns share 0; share 1 is another host's, whose own board has
// room: it may be as far ahead as members ever are.
class RecorderTest : public testing::Test {
 protected:
  RecorderTest()
      : bytes_(Board(nullptr, kPlan).data_offset()),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        board_(memory_, kPlan) {}
  ~RecorderTest() override { munmap(memory_, bytes_); }

  std::unique_ptr<Recorder> open(Txn next) {
    auto opened = Recorder::open(posix_env(), folder_.path(), board_, next, [](auto) {});
    EXPECT_TRUE(opened.ok());
    return *std::move(opened);
  }
  // As long as there is room; the first one that had none.
  Txn go_on(Txn txn) {
    for (; board_.has_room(txn) && txn < kEnd; txn = after(txn, 1)) {
      for (std::uint64_t ahead = 0; ahead < kGenerations; ++ahead) record(after(txn, ahead), 1);
      record(txn, 0);
      CommitLines& lines = board_.lines(Slot(0), txn);
      lines.is_step = 1;
      lines.step = txn.value();
      lines.mark.store(txn.value() + 1);
      board_.slot(Slot(0)).applied.store(txn.value() + 1);
    }
    if (txn == kEnd) return txn;
    // At its start it waits, and so do all others behind the one that is the furthest ahead.
    for (std::uint64_t ahead = 0; ahead < kGenerations; ++ahead) record(after(txn, ahead), 1);
    board_.slot(Slot(0)).current_txn.store(txn.value());
    return txn;
  }
  void record(Txn txn, int share) {
    board_.record(txn, VirtualWorker(share)).mark = txn.value() + 1;
  }
  std::uint64_t rings() const { return board_.slot(Slot(0)).bell.rings.load(); }
  std::int64_t ledger_lines() const {
    return std::ranges::count(folder_.read("ledger.jsonl"), '\n');
  }

  static constexpr BoardPlan kPlan{.virtual_workers = 2, .ids_capacity = 4, .ring = 64};
  static constexpr Txn kEnd{1000};
  const test::TempFolder folder_;
  const std::uint64_t bytes_;
  void* const memory_;
  const Board board_;
};

TEST_F(RecorderTest, WhoeverIsAheadOnAnotherHostWritesOverNothingThatIsStillToBeRecorded) {
  const auto recorder = open(Txn(0));
  std::int64_t waits = 0;
  for (Txn txn(0); (txn = go_on(txn)) < kEnd; ++waits) {
    const std::uint64_t before = rings();
    const Status pumped = recorder->pump();
    ASSERT_TRUE(pumped.ok()) << pumped.error().message;
    EXPECT_EQ(recorder->next(), txn);
    EXPECT_GT(rings(), before) << "it waits for room";
  }
  EXPECT_TRUE(recorder->pump().ok());
  EXPECT_EQ(ledger_lines(), 1000);
  EXPECT_EQ(waits, 1000 / (64 - 4)) << "as much of the ring as can be is used";
}

// What it lacks is copied first: until then nothing is recorded, however long that takes.
TEST_F(RecorderTest, ABoardThatSomebodyHasComeInOnWaitsForItsRecorder) {
  EXPECT_TRUE(board_.has_room(Txn(514 + 1000))) << "nobody waits for one without a member";
  board_.header().recorded_from.store(514 + 1);
  const Txn waits = go_on(Txn(514));
  EXPECT_EQ(waits, Txn(514 + 64 - 4));
  const auto recorder = open(Txn(514));
  const Status pumped = recorder->pump();
  ASSERT_TRUE(pumped.ok()) << pumped.error().message;
  EXPECT_EQ(recorder->next(), waits);
  EXPECT_EQ(ledger_lines(), 64 - 4);
}

}  // namespace
}  // namespace lockstep::coord
