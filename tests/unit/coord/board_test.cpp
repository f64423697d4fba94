#include "coord/board.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <thread>

namespace lockstep::coord {
namespace {

// Anonymous, sparse, as long as the engine's first byte.
class Mapping {
 public:
  explicit Mapping(const BoardPlan& plan)
      : plan_(plan), bytes_(Board(nullptr, plan).data_offset()) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Mapping() { munmap(memory_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Board board() const { return Board(memory_, plan_); }

 private:
  BoardPlan plan_;
  std::uint64_t bytes_;
  void* memory_;
};

std::uint64_t offset(const Board& board, const void* at) {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - board.base());
}

TEST(Board, PartsFollowEachOtherWithoutOverlap) {
  const Mapping mapping({5, 100, 64});
  const Board board = mapping.board();
  EXPECT_GE(offset(board, &board.slot(Slot(0))), sizeof(Header));
  EXPECT_EQ(offset(board, &board.slot(Slot(3))) - offset(board, &board.slot(Slot(2))),
            sizeof(WorkerSlot));
  EXPECT_EQ(offset(board, &board.lines(Slot(0), Txn(0))), fixed_bytes());
  const std::uint64_t lines_end =
      offset(board, &board.lines(Slot(kMaxSlots - 1), Txn(63))) + sizeof(CommitLines);
  EXPECT_LE(lines_end, offset(board, &board.record(Txn(0), VirtualWorker(0))));
  const ShareRecord& last = board.record(Txn(63), VirtualWorker(4));
  const auto end = [&](const ShareRecord& record) {
    return offset(board, record.samples().data() + 100);
  };
  EXPECT_LE(end(last), board.data_offset());
  EXPECT_LE(end(board.record(Txn(0), VirtualWorker(0))),
            offset(board, &board.record(Txn(0), VirtualWorker(1))));
  EXPECT_EQ(board.data_offset() % (std::uint64_t{2} << 20), 0U);
}

TEST(Board, ALineIsSaidByWhoeverClaimsItFirst) {
  const Mapping mapping({1, 4, 64});
  Header& header = mapping.board().header();
  for (const std::uint64_t key : {0, 7, 8}) {
    EXPECT_TRUE(header.claim_line(key));
    EXPECT_FALSE(header.claim_line(key));
  }
  for (std::uint64_t key = 9; key < 9 + kMaxClaims; ++key) header.claim_line(key);
  EXPECT_FALSE(header.claim_line(9));
  EXPECT_TRUE(header.claim_line(9 + kMaxClaims)) << "no room: nothing is kept back";
}

TEST(Board, ASlotThatIsClaimedHasNoWordOfItsLastOwner) {
  const Mapping mapping({1, 4, 64});
  WorkerSlot& slot = mapping.board().slot(Slot(1));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&slot);
  std::fill_n(reinterpret_cast<unsigned char*>(&slot), sizeof slot, 0xff);
  slot.claim(WorkerUid(7));
  EXPECT_EQ(slot.uid.load(), 7U);
  EXPECT_EQ(slot.bell.rings.load(), 0xffffffffU);
  const auto begin = offsetof(WorkerSlot, phase),
             end = offsetof(WorkerSlot, fault_index) + sizeof(Word);
  EXPECT_TRUE(std::all_of(bytes + begin, bytes + end, [](unsigned char b) { return b == 0; }));
}

TEST(Board, TextsHaveRoomForALineOfEachVirtualWorker) {
  const Mapping mapping({5, 100, 64});
  const Board board = mapping.board();
  const std::uint64_t all = board.text_capacity();
  EXPECT_EQ(all, 4608U + 5 * 256);
  EXPECT_EQ(board.text(Slot(7), Txn(3), 2048), board.lines(Slot(7), Txn(3)).text);
  const char* const first = board.text(Slot(0), Txn(0), all);
  EXPECT_GE(offset(board, first),
            offset(board, &board.lines(Slot(kMaxSlots - 1), Txn(63))) + sizeof(CommitLines));
  EXPECT_EQ(board.text(Slot(0), Txn(1), all), first + all);
  EXPECT_EQ(board.text(Slot(1), Txn(64), all), first + 64 * all);  // the ring comes round
  EXPECT_LE(offset(board, board.text(Slot(kMaxSlots - 1), Txn(63), all) + all),
            offset(board, &board.record(Txn(0), VirtualWorker(0))));
}

TEST(Board, RingsComeRound) {
  const Mapping mapping({2, 4, 64});
  const Board board = mapping.board();
  EXPECT_EQ(&board.lines(Slot(1), Txn(3)), &board.lines(Slot(1), Txn(67)));
  EXPECT_NE(&board.lines(Slot(1), Txn(3)), &board.lines(Slot(1), Txn(4)));
  EXPECT_EQ(&board.record(Txn(0), VirtualWorker(1)), &board.record(Txn(64), VirtualWorker(1)));
  EXPECT_NE(&board.record(Txn(0), VirtualWorker(1)), &board.record(Txn(1), VirtualWorker(1)));
}

TEST(Board, RingsFitSixteenMebibytesWherePossible) {
  for (const std::uint32_t workers : {1U, 8U, 1024U})
    for (const std::uint32_t ids : {0U, 100U, 100'000U}) {
      const std::uint32_t ring = ring_for(workers, ids);
      EXPECT_TRUE(std::has_single_bit(ring));
      EXPECT_GE(ring, 64U);
      EXPECT_LE(ring, 1024U);
      EXPECT_TRUE(ring == 64 || std::uint64_t{ring} * workers * ids * 8 <= std::uint64_t{16} << 20);
    }
  EXPECT_EQ(ring_for(1, 0), 1024U);
}

TEST(Board, TheDeadAreInOrder) {
  const Mapping mapping({1, 0, 64});
  Header& header = mapping.board().header();
  EXPECT_TRUE(mapping.board().dead().empty());
  header.dead_uid[0].store(9);
  header.dead_uid[1].store(4);
  header.dead_count.store(2);
  EXPECT_EQ(mapping.board().dead(), (std::vector<WorkerUid>{WorkerUid(9), WorkerUid(4)}));
}

TEST(TableCell, ATableIsReadForItsTransactionOnly) {
  const Mapping mapping({1, 0, 64});
  TableCell& cell = mapping.board().table(Txn(1));
  Table read;
  EXPECT_FALSE(read_table(cell, Txn(0), read));
  Table written{Txn(7), Generation(3), kStop, {{WorkerUid(5), Slot(2)}, {WorkerUid(1), Slot(0)}}};
  written.parts = {kMaxVirtualWorkers, true};
  write_table(cell, written);
  EXPECT_FALSE(read_table(cell, Txn(5), read));
  ASSERT_TRUE(read_table(cell, Txn(7), read));
  EXPECT_EQ(read.generation, written.generation);
  EXPECT_EQ(read.flags, written.flags);
  EXPECT_EQ(read.members, written.members);
  EXPECT_EQ(read.txn, Txn(7));
  EXPECT_EQ(read.parts, written.parts);
}

TEST(TableCell, AsManyMembersAndHostsAsThereCanBe) {
  const Mapping mapping({1, 0, 64});
  Table table{Txn(6), Generation(2), kNone, {}};
  for (std::uint32_t m = 0; m < kMaxMembers; ++m) {
    const Stay stay{static_cast<std::uint16_t>(m), 7};
    table.members.push_back({uid_of(stay, 40'000 + m), Slot(m % kMaxSlots)});
    table.hosts.push_back({stay, m + 1});
  }
  TableCell& cell = mapping.board().table(Txn(6));
  write_table(cell, table);
  Table read;
  ASSERT_TRUE(read_table(cell, Txn(6), read));
  EXPECT_EQ(read.members, table.members);
  EXPECT_EQ(read.hosts, table.hosts);
}

TEST(ProposalCell, AReaderSeesWholeProposalsOnly) {
  const Mapping mapping({1, 0, 64});
  ProposalCell& cell = mapping.board().header().proposal;
  // Proposal n: generation n, n % 100 + 1 members, each with uid n; as long as the test reads.
  const std::jthread agent([&](const std::stop_token& done) {
    for (std::uint64_t n = 1; !done.stop_requested(); ++n) {
      Table wish{Txn(0), Generation(n), kNone, {}};
      wish.members.assign(n % 100 + 1,
                          {WorkerUid(n), Slot(static_cast<std::uint32_t>(n % kMaxSlots))});
      write_proposal(cell, wish);
      if (n % 16 == 0) std::this_thread::yield();  // a reader needs a pause between two
    }
  });
  std::uint64_t last = 0;
  for (int seen = 0; seen < 20 || last < 3000;) {
    const Table wish = read_proposal(cell);
    const std::uint64_t n = wish.generation.value();
    ASSERT_GE(n, last);
    ASSERT_EQ(wish.members.size(), n == 0 ? 0 : n % 100 + 1);
    ASSERT_TRUE(std::all_of(wish.members.begin(), wish.members.end(),
                            [&](const Member& m) { return m.uid == WorkerUid(n); }));
    seen += n > last ? 1 : 0;
    last = n;
  }
}

}  // namespace
}  // namespace lockstep::coord
