// What is written is read again; what the plan does not have, or no table can be, is refused.
#include "link/messages.h"

#include <gmock/gmock.h>

#include "fake_board.h"

namespace lockstep::link {
namespace {

using testing::HasSubstr;

class LinkMessages : public testing::Test {
 protected:
  std::string refusal(const std::string& bytes) {
    const auto read = decode_round(bytes);
    return read.ok() ? "" : read.error().message;
  }
  FakePlan plan_;
  const Item node_{.txn = Txn(7),
                   .kind = Kind::kNode,
                   .host = 1,
                   .level = 1,
                   .node = 1,
                   .bucket = 0,
                   .index = 2};
};

TEST_F(LinkMessages, HeadersAreReadAgain) {
  using What = FrameHead::What;
  for (const FrameHead& head :
       {FrameHead{}, FrameHead{What::kTable, table_of(9)}, FrameHead{What::kItem, record(3, 2)},
        FrameHead{What::kItem, chunk(4, 1), 1, 1U << 20}, FrameHead{What::kItem, node_},
        FrameHead{What::kItem, loading_of(5, 2)}, FrameHead{What::kItem, ready_of(5, {2, 7}, 3)}}) {
    const auto read = decode_head(encode(head));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, head);
  }
}

TEST_F(LinkMessages, HeadersOfWhatCannotBeAreRefused) {
  using What = FrameHead::What;
  for (const FrameHead& head :
       {FrameHead{What::kItem, table_of(1)}, FrameHead{What::kTable, record(3, 0)},
        FrameHead{What::kItem, record(3, 0), 4}})
    EXPECT_FALSE(decode_head(encode(head)).ok());
  EXPECT_FALSE(decode_head("").ok());
  EXPECT_FALSE(decode_head(encode(FrameHead{}) + "x").ok());
}

TEST_F(LinkMessages, ThePlanSaysWhichItemsThereAre) {
  Item far = node_;
  far.node = 2;
  Item beyond = record(3, 0);
  beyond.txn = Txn(~std::uint64_t{0});
  const Item buffers{.txn = Txn(1), .kind = Kind::kBuffers};
  for (const Item& item :
       {record(3, 3), chunk(4, 3), far, beyond, buffers, ready_of(5, kB, coord::kMaxSlots)})
    EXPECT_FALSE(is_of(plan_, item));
  for (const Item& item :
       {record(3, 2), chunk(4, 2), node_, table_of(8), loading_of(5, 2), ready_of(5, kB, 3)})
    EXPECT_TRUE(is_of(plan_, item));
}

TEST_F(LinkMessages, AHaveIsRunsOfItems) {
  FakeBoard board;
  board.put(table_with(5, {kA, kB})).put(record(5, 1)).put(record(8, 0));
  for (std::uint32_t c = 0; c < 3; ++c) board.put(chunk(5, c));
  board.lowest = 5;
  const Have have = have_of(board, plan_);
  const auto bytes = encode(have);
  ASSERT_TRUE(bytes.ok());
  const auto read = decode_have(*bytes);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->lowest, 5U);
  EXPECT_EQ(read->marked, have.marked);
  EXPECT_FALSE(decode_have(*bytes + '\0').ok());
  EXPECT_FALSE(decode_have(bytes->substr(0, bytes->size() - 1)).ok());
  const auto nothing = decode_have(*encode(Have{.first = kNever}));
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->first, kNever);
  EXPECT_FALSE(decode_have(*encode(Have{.lowest = ~std::uint64_t{0} - 2})).ok());
}

TEST_F(LinkMessages, AHaveOfMoreThanThereCanBeIsRefused) {
  std::string bytes = *encode(Have{.marked = {record(5, 1)}});
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\x7f", 4);  // so many records follow it
  EXPECT_FALSE(decode_have(bytes).ok());
  EXPECT_FALSE(decode_have(*encode(Have{.marked = {record(5, 2), record(5, 1)}})).ok());
  EXPECT_FALSE(decode_have(*encode(Have{.marked = {node_}})).ok());
  EXPECT_FALSE(decode_have(*encode(Have{.marked = {ready_of(5, kB, 3)}})).ok());
  const auto until = [](std::uint64_t last) {
    return Have{.marked = {record(5, 1), record(last, 0)}};
  };
  EXPECT_TRUE(decode_have(*encode(until(5 + coord::kTables))).ok());
  EXPECT_FALSE(decode_have(*encode(until(6 + coord::kTables))).ok());
}

// The plan is what a few bytes cannot go beyond.
TEST_F(LinkMessages, AHaveOfWhatThePlanDoesNotHaveIsRefused) {
  EXPECT_TRUE(decode_have(*encode(Have{.marked = {record(5, 2)}}), &plan_).ok());
  EXPECT_FALSE(decode_have(*encode(Have{.marked = {record(5, 3)}}), &plan_).ok());
  std::string bytes = *encode(Have{.marked = {record(5, 1)}});
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\x3f\0", 4);
  EXPECT_TRUE(decode_have(bytes).ok());
  EXPECT_FALSE(decode_have(bytes, &plan_).ok());
}

TEST_F(LinkMessages, ARoundOfMoreHostsThanThereCanBeIsRefused) {
  const auto is_read = [](const RoundMessage& message) {
    return decode_round(*encode(message)).ok();
  };
  const std::vector<HostIndex> most(coord::kMaxMembers), more(coord::kMaxMembers + 1);
  EXPECT_TRUE(is_read(Round{.stamp = {}, .set = most, .out = {}, .table = {}}));
  EXPECT_FALSE(is_read(Round{.stamp = {}, .set = more, .out = {}, .table = {}}));
  const std::vector<Stay> deaths(coord::kMaxDead + 1, kA);
  EXPECT_FALSE(is_read(Round{.stamp = {}, .set = {}, .out = deaths, .table = {}}));
  EXPECT_FALSE(is_read(Round{.stamp = {}, .set = {}, .out = {}, .table = deaths}));
  EXPECT_FALSE(is_read(Fills{.stamp = {}, .host = 1, .order = deaths, .get = {}, .send = {}}));
  Answer answer;
  answer.appended = deaths;
  EXPECT_FALSE(is_read(answer));
}

TEST_F(LinkMessages, ATableIsOneThatOwnersCanBeMadeOf) {
  coord::Table table = table_with(5, {kB, kA, kC});
  table.generation = Generation(3);
  table.flags = coord::kStop;
  table.stop_after_step = 9;
  table.parts = {8, true};
  const auto read = decode_table(encode(table));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->members, table.members);
  EXPECT_EQ(read->hosts, table.hosts);
  EXPECT_EQ(read->parts, table.parts);
  EXPECT_EQ(read->generation, table.generation);
  EXPECT_EQ(read->flags, table.flags);
  EXPECT_EQ(read->stop_after_step, table.stop_after_step);
  const auto refused = [](coord::Table wrong) {
    const auto result = decode_table(encode(wrong));
    return result.ok() ? std::string() : result.error().message;
  };
  coord::Table wrong = table;
  wrong.members.clear();
  EXPECT_THAT(refused(wrong), HasSubstr("has 0 members"));
  wrong = table;
  std::swap(wrong.hosts[0], wrong.hosts[1]);
  EXPECT_THAT(refused(wrong), HasSubstr("names other hosts"));
  wrong = table;
  wrong.members.push_back(wrong.members.front());
  EXPECT_THAT(refused(wrong), HasSubstr("a member twice"));
  wrong = table_with(5, {kA, {0, 2}});
  EXPECT_THAT(refused(wrong), HasSubstr("a host twice"));
  wrong = table;
  wrong.hosts[1].workers = 0;
  EXPECT_THAT(refused(wrong), HasSubstr("names other hosts"));
  wrong = table;
  wrong.members[0].slot = Slot(coord::kMaxSlots);
  EXPECT_THAT(refused(wrong), HasSubstr("a member that is none"));
  wrong = table;
  wrong.parts.items = coord::kMaxVirtualWorkers + 1;
  EXPECT_THAT(refused(wrong), HasSubstr("says that it has 1025 items"));
}

TEST_F(LinkMessages, ARoundsMessagesAreReadAgain) {
  FakeBoard board;
  board.put(table_with(0, {kA, kB})).put(table_with(1, {kA, kB})).put(record(0, 1));
  const std::vector<RoundMessage> all = {
      Round{{3, 4}, {0, 1, 2}, {kB}, {kA, kC}},
      Answer{{3, 4}, 2, have_of(board, plan_), {*board.table(0), *board.table(1)}, {kB}},
      Fills{{3, 4}, 1, {kB, kC}, {record(0, 1), table_of(1)}, {{2, chunk(1, 2)}}},
      Appended{{3, 4}, 7}};
  for (const RoundMessage& message : all) {
    const auto bytes = encode(message);
    ASSERT_TRUE(bytes.ok());
    const auto read = decode_round(*bytes);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->index(), message.index());
    const auto again = encode(*read);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *bytes);
    EXPECT_NE(refusal(*bytes + "x"), "");
    EXPECT_NE(refusal(bytes->substr(0, bytes->size() - 1)), "");
  }
}

TEST_F(LinkMessages, OfNoTypeIsRefused) { EXPECT_THAT(refusal("\x09"), HasSubstr("no type")); }

}  // namespace
}  // namespace lockstep::link
