// Boards of several hosts, with members and links as threads: whatever the hosts have and whoever
// dies, each member gets the sums of one host, bit for bit.
#include <array>
#include <random>

#include "carrier/outlet.h"
#include "conformance/cluster.h"
#include "hosts.h"
#include "link/messages.h"
#include "links/links.h"

namespace lockstep::carrier {
namespace {

using conformance::kDeaths;

void expect_exact(const Shape& shape, const std::vector<Fault>& faults, const std::string& what) {
  SCOPED_TRACE(what + "; " + testing::PrintToString(shape.workers) + " workers, V " +
               std::to_string(shape.virtual_workers));
  Machines machines(shape, faults);
  machines.go();
  EXPECT_GT(machines.frames(), 0U);
}

TEST(ManyHosts, AnyHostsGiveTheBitsOfOne) {
  for (const std::vector<std::uint32_t>& workers : {std::vector<std::uint32_t>{1, 1},
                                                    {2, 1},
                                                    {1, 3},
                                                    {1, 1, 1},
                                                    {2, 1, 3},
                                                    {1, 1, 1, 1},
                                                    {1, 2, 1, 3}})
    for (const std::uint32_t v : {8U, 7U, 13U})
      expect_exact({.workers = workers,
                    .virtual_workers = v,
                    .sets = v % 2 + 1,
                    .evaluations = 4,
                    .seed = v},
                   {}, "undisturbed");
}

TEST(ManyHosts, AWorkerOfEachHostDiesInAStep) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<std::uint32_t> workers{2, 3, 2};
    std::vector<Fault> faults;
    for (std::uint32_t h = 0; h < workers.size(); ++h)
      faults.push_back({h, static_cast<std::uint32_t>(seed + h) % workers[h], 1 + (seed + h) % 3,
                        kDeaths[(seed + 2 * h) % 5]});
    expect_exact({.workers = workers, .sets = seed % 2 + 1, .evaluations = 8, .seed = seed}, faults,
                 "seed " + std::to_string(seed));
  }
}

TEST(ManyHosts, AHostDiesWhole) {
  std::uint64_t fills = 0;
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const auto victim = static_cast<std::uint32_t>(seed % 3);
    const Shape shape{.workers = {2, 1, 2},
                      .virtual_workers = seed % 2 == 0 ? 8U : 11U,
                      .sets = seed % 4 / 3 + 1,
                      .evaluations = seed % 5 == 0 ? 4U : 0U,
                      .seed = seed};
    Machines machines(shape, {{victim, std::nullopt, 2, kDeaths[seed / 3 % 5]}});
    machines.go();
    fills += machines.fills();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(fills, 0U) << "no death left something that only some hosts had";
}

// Two hosts one after another, and workers of those that are left, drawn.
TEST(ManyHosts, OfFourHostsTwoDieAndWorkersToo) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::mt19937_64 random(seed);
    const Shape shape{.workers = {2, 1, 3, 2},
                      .virtual_workers = 8 + static_cast<std::uint32_t>(random() % 6),
                      .transactions = 8,
                      .evaluations = std::array{0U, 6U, 12U, 24U, 36U, 54U}[random() % 6],
                      .seed = seed};
    const auto first = static_cast<std::uint32_t>(random() % 4),
               second = (first + 1 + static_cast<std::uint32_t>(random() % 3)) % 4;
    std::vector<Fault> faults{{first, std::nullopt, 1 + random() % 3, kDeaths[random() % 5]}};
    faults.push_back({second, std::nullopt, faults[0].txn + random() % 3, kDeaths[random() % 5]});
    for (std::uint32_t h = 0; h < 4; ++h)
      if (h != first && h != second && shape.workers[h] > 1)
        faults.push_back({h, static_cast<std::uint32_t>(random() % shape.workers[h]), random() % 6,
                          kDeaths[random() % 5]});
    expect_exact(shape, faults, "seed " + std::to_string(seed));
  }
}

// As an agent, for which nobody waits: tables may have been written over since.
class WhoLooksSeldom : public testing::Test {
 protected:
  WhoLooksSeldom() {
    coord::write_table(workers_.board().table(Txn(0)), conformance::first_table(shape_));
    board_ = BoardMemory::open(base_, room_, workers_.stay());
    EXPECT_EQ(board_->first(), 0U);
    workers_.start();
    workers_.await();
  }

  const Shape shape_{.workers = {2}, .transactions = 13};
  std::vector<std::byte> unaligned_ =
      std::vector<std::byte>(conformance::board_bytes_of(shape_) + 4096);
  std::size_t room_ = unaligned_.size();
  void* memory_ = unaligned_.data();
  std::byte* const base_ = static_cast<std::byte*>(std::align(4096, room_ - 4096, memory_, room_));
  HostWorkers workers_{shape_, {}, 0, base_, room_};
  std::unique_ptr<BoardMemory> board_;
};

TEST_F(WhoLooksSeldom, GoesOnWhereTheTablesAre) {
  board_->look();
  EXPECT_EQ(board_->first_not_whole(), shape_.transactions);
  EXPECT_EQ(board_->newest_table(), shape_.transactions);
  EXPECT_EQ(board_->first(), shape_.transactions - 4);
}

TEST_F(WhoLooksSeldom, ForgetsATableThatIsBeingWrittenOver) {
  coord::Word& mark = workers_.board().table(Txn(0)).mark;
  const std::uint64_t was = mark.exchange(0);
  board_->look();  // went round for ever, from the old table on
  EXPECT_EQ(board_->table(0), nullptr);
  EXPECT_EQ(board_->newest_table(), shape_.transactions);
  EXPECT_GE(board_->first(), shape_.transactions - 4);
  mark.store(was);
  board_->look();
  EXPECT_EQ(board_->first_not_whole(), shape_.transactions);
}

// Of what is to be sent: who reads it when it likes.
class Waiting : public links::Links {
 public:
  void open(const links::Other&) override {}
  void abort(links::HostIndex) override {}
  bool is_up(links::HostIndex) const override { return true; }
  void send(links::HostIndex, std::string_view header, std::span<const std::byte> body) override {
    add(header, body);
  }
  void send_copy(links::HostIndex, std::string_view header, std::string body) override {
    const std::string& kept = kept_.emplace_back(std::move(body));
    add(header, std::as_bytes(std::span(kept)));
  }
  std::size_t unsent(links::HostIndex) const override { return 0; }

  std::map<link::Item, std::span<const std::byte>> records;

 private:
  void add(std::string_view header, std::span<const std::byte> body) {
    const auto head = link::decode_head(header);
    if (head.ok() && head->item.kind == link::Kind::kRecord) records[head->item] = body;
  }
  std::deque<std::string> kept_;
};

// A host that comes and stands still, or reads slowly: nobody waits for it.
TEST_F(WhoLooksSeldom, WhatWaitsToBeSentStaysAsItWas) {
  board_->look();
  Waiting links;
  Outlet outlet(workers_.stay(), {1, 1});
  link::BoardOwners owners(board_->plan());
  outlet.obey({});
  outlet.open({.first = board_->first()});
  outlet.send(links, *board_, owners);
  std::map<link::Item, std::vector<std::byte>> right;
  for (const auto& [item, bytes] : links.records) right[item] = {bytes.begin(), bytes.end()};
  ASSERT_FALSE(right.empty());
  coord::Table table = *board_->table(board_->newest_table());
  for (int i = 0; i < 20; ++i) {
    table.txn = Txn(table.txn.value() + 1);
    coord::write_table(workers_.board().table(table.txn), table);
    board_->look();
  }
  for (const auto& [item, bytes] : links.records)
    EXPECT_TRUE(std::ranges::equal(bytes, right[item])) << item.index;
}

// Of a host that comes: no table lists it, and it begins where the newest copy is.
class WhoComes : public testing::Test {
 protected:
  WhoComes() {
    shape_.workers = {1, 1};
    shape_.state_bytes = 10'000;
    unaligned_.resize(conformance::board_bytes_of(shape_) + 4096);
    std::size_t room = unaligned_.size();
    void* memory = unaligned_.data();
    auto* const base = static_cast<std::byte*>(std::align(4096, room - 4096, memory, room));
    workers_ = std::make_unique<HostWorkers>(shape_, std::vector<Fault>{}, 1, base, room);
    board_ = BoardMemory::open(base, room, workers_->stay());
  }
  void write_table(std::uint64_t txn, bool lists) {
    coord::Table table = conformance::first_table(shape_);
    table.txn = Txn(txn);
    if (!lists) table.members.pop_back(), table.hosts.pop_back();
    coord::write_table(workers_->board().table(Txn(txn)), table);
    board_->look();
  }
  void land(std::uint64_t txn) {
    const auto place = board_->place(link::image_of(txn, 0));
    ASSERT_TRUE(place);
    EXPECT_EQ(place->data(), workers_->exchange(0).heal_region().data());
    EXPECT_EQ(place->size(), shape_.state_bytes);
    EXPECT_EQ(workers_->exchange(0).heal_mark().load(), 0U) << "who reads it sees that it is torn";
    board_->landed(link::image_of(txn, 0), link::kPlain);
    EXPECT_EQ(workers_->exchange(0).heal_mark().load(), txn + 1);
  }

  Shape shape_;
  std::vector<std::byte> unaligned_;
  std::unique_ptr<HostWorkers> workers_;
  std::unique_ptr<BoardMemory> board_;
};

TEST_F(WhoComes, BeginsWithTheNewestCopy) {
  write_table(5, false);
  EXPECT_EQ(board_->first(), link::kNever);
  land(5);
  EXPECT_EQ(board_->first(), 5U);
  EXPECT_EQ(board_->first_not_whole(), 5U);
  write_table(7, false);
  land(7);
  EXPECT_EQ(board_->first(), 7U);
  EXPECT_EQ(board_->first_not_whole(), 7U) << "what was missed of 5 may never come";
  write_table(8, true);
  EXPECT_TRUE(board_->is_listed());
  EXPECT_EQ(board_->first(), 7U);
  EXPECT_FALSE(board_->place(link::image_of(9, 0))) << "its own members copy into that region";
}

// What a donor on this host has copied goes to those that the agent proposes and no table lists.
TEST_F(WhoComes, IsNamedToTheDonorsLink) {
  const coord::Stay comer{0, 2};
  write_table(3, true);
  workers_->exchange(0).heal_mark().store(4);
  EXPECT_FALSE(board_->image_for(comer));
  coord::Table wish = *board_->table(3);
  wish.members.insert(wish.members.begin(), {coord::uid_of(comer, 1), Slot(0)});
  coord::write_proposal(workers_->board().header().proposal, wish);
  EXPECT_EQ(board_->image_for(comer), link::image_of(3, 1));
  EXPECT_EQ(board_->newcomers(), std::vector{link::loading_of(3, 1)});
  EXPECT_FALSE(board_->image_for({0, 1}));
  EXPECT_FALSE(board_->image_for(workers_->stay()));
  workers_->exchange(0).heal_mark().store(0);
  EXPECT_FALSE(board_->image_for(comer)) << "it is being written";
  workers_->exchange(0).heal_mark().store(2);
  EXPECT_FALSE(board_->image_for(comer)) << "its table is gone";
}

}  // namespace
}  // namespace lockstep::carrier
