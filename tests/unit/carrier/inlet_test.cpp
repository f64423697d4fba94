// Where frames land, and what is refused before a byte of it lands.
#include "carrier/inlet.h"

#include <gmock/gmock.h>

#include "links/links.h"
#include "test_board.h"

namespace lockstep::carrier::test {
namespace {

using link::FrameHead;
using testing::HasSubstr;
using What = FrameHead::What;

Item record(std::uint64_t txn, std::uint32_t v) {
  return {.txn = Txn(txn), .kind = Kind::kRecord, .index = v};
}

class InletTest : public testing::Test {
 protected:
  // A frame, whole; its refusal, or "".
  std::string come(Inlet& inlet, link::HostIndex from, const FrameHead& head,
                   const std::string& body) {
    auto place = inlet.landing({plan_, board_, landings_}, from, encode(head), body.size());
    if (!place.ok()) return place.error().message;
    binned_ = !*place;
    if (*place) std::ranges::copy(std::as_bytes(std::span(body)), (*place)->begin());
    const auto landed = inlet.landed({plan_, board_, landings_});
    return landed.ok() ? "" : landed.error().message;
  }
  std::string come(Inlet& inlet, link::HostIndex from, const Item& item, std::uint8_t flags = 0) {
    return come(inlet, from, FrameHead{What::kItem, item, flags, 0}, content(plan_, item, from));
  }
  void greet(Inlet& inlet, link::HostIndex from) {
    EXPECT_EQ(come(inlet, from, FrameHead{}, *link::encode(link::Have{})), "");
  }
  TestPlan plan_{100, 2'500'000};
  TestBoard board_{plan_, {0, 1}};
  link::Landings landings_;
  Inlet one_, other_;
  bool binned_ = false;
};

TEST_F(InletTest, WhatIsWholeIsMarked) {
  greet(one_, 1);
  EXPECT_EQ(come(one_, 1, record(0, 2)), "");
  EXPECT_EQ(board_.mark(record(0, 2)), 1U);
  EXPECT_EQ(board_.bytes(record(0, 2)), content(plan_, record(0, 2), 1));
  EXPECT_EQ(come(one_, 1, record(0, 2)), "");
  EXPECT_TRUE(binned_);
}

TEST_F(InletTest, TheFirstFrameIsAHave) {
  EXPECT_THAT(come(one_, 1, record(0, 2)), HasSubstr("no Have"));
}

TEST_F(InletTest, WhatNoLinkOfThisRunWouldSendIsRefused) {
  greet(one_, 1);
  EXPECT_THAT(come(one_, 1, record(4, 2)), HasSubstr("this board is in transaction 0"));
  EXPECT_THAT(come(one_, 1, FrameHead{What::kItem, record(0, 0)}, "short"),
              HasSubstr("has 5 bytes from byte 0 on, not 100"));
  one_.close();
  greet(one_, 1);
  EXPECT_THAT(come(one_, 1, FrameHead{What::kItem, record(0, 0), 0, 50}, std::string(50, 'x')),
              HasSubstr("does not begin at its first byte"));
  const Item node{.txn = Txn(0), .kind = Kind::kNode, .host = 2, .bucket = 0, .index = 0};
  EXPECT_THAT(come(one_, 1, node), HasSubstr("a node of host 2's"));
  EXPECT_THAT(come(one_, 1, record(0, 0), link::kNotFinite), HasSubstr("flags"));
  EXPECT_THAT(come(one_, 1, record(0, TestPlan::kShares)), HasSubstr("is not in the plan"));
  EXPECT_EQ(board_.mark(record(0, 0)), 0U);
}

TEST_F(InletTest, ATableIsTheOneThatItsHeaderNames) {
  greet(one_, 1);
  coord::Table table{.txn = Txn(2), .generation = {}, .members = {}};
  table.members.push_back({coord::uid_of({1, 1}, 1), Slot(0)});
  table.hosts.push_back({{1, 1}, 1});
  EXPECT_THAT(come(one_, 1, FrameHead{What::kTable, link::table_of(1)}, link::encode(table)),
              HasSubstr("is of another one"));
  EXPECT_EQ(come(one_, 1, FrameHead{What::kTable, link::table_of(2)}, link::encode(table)), "");
  EXPECT_NE(board_.table(2), nullptr);
  table.txn = Txn(3);
  table.parts = {TestPlan::kShares + 1, true};
  EXPECT_THAT(come(one_, 1, FrameHead{What::kTable, link::table_of(3)}, link::encode(table)),
              HasSubstr("says 7 items, more than the plan has"));
  EXPECT_THAT(come(one_, 1, FrameHead{What::kTable, link::table_of(5)}, "x"),
              HasSubstr("this board is in transaction 0"));
}

TEST_F(InletTest, SlicesMakeAnItemAndOneThatBreaksOffStaysUnmarked) {
  greet(one_, 1);
  const Item buffers{.txn = Txn(0), .kind = Kind::kBuffers};
  const std::string all = content(plan_, buffers, 1);
  const std::size_t most = links::kMostBodyBytes;
  const auto slice = [&](std::size_t offset) {
    return come(one_, 1, FrameHead{What::kItem, buffers, 0, offset}, all.substr(offset, most));
  };
  EXPECT_EQ(slice(0), "");
  EXPECT_THAT(come(one_, 1, record(0, 0)), HasSubstr("a buffers of transaction 0 breaks off"));
  EXPECT_EQ(board_.mark(buffers), 0U);
  one_.close();
  landings_.drop(1);
  greet(one_, 1);
  for (std::size_t offset = 0; offset < all.size(); offset += most) {
    EXPECT_EQ(board_.mark(buffers), 0U);
    EXPECT_EQ(slice(offset), "");
  }
  EXPECT_EQ(board_.mark(buffers), 1U);
  EXPECT_TRUE(board_.bytes(buffers) == all);
}

// A copy of the state: other items come between its slices, and the empty one behind them says that
// it is whole.
TEST_F(InletTest, ACopyOfTheStateIsWholeWhenItsSenderSaysSo) {
  const Item image = link::image_of(7, 1);
  board_.come();
  greet(one_, 1);
  greet(other_, 2);
  const std::string all = content(plan_, image, 1);
  const auto slice = [&](Inlet& inlet, std::size_t from, std::size_t bytes) {
    return come(inlet, image.host, FrameHead{What::kItem, image, 0, from}, all.substr(from, bytes));
  };
  EXPECT_THAT(slice(one_, 100, 50), HasSubstr("goes on at byte 100"));
  EXPECT_THAT(come(other_, 2, FrameHead{What::kItem, image, 0, 0}, "of another host's"),
              HasSubstr("that cannot be"));
  EXPECT_EQ(slice(one_, 0, 1'000'000), "");
  EXPECT_EQ(slice(one_, 0, 1'000'000), "") << "it begins anew";
  EXPECT_EQ(come(one_, 1, record(0, 1)), "");
  EXPECT_EQ(board_.mark(record(0, 1)), 1U);
  EXPECT_THAT(slice(one_, 500'000, 1), HasSubstr("goes on at byte 500000"));
  // Of a second one only the sender is told nothing.
  EXPECT_EQ(come(other_, 2, FrameHead{What::kItem, link::image_of(8, 2)}, "another"), "");
  EXPECT_TRUE(binned_);
  EXPECT_EQ(slice(one_, 1'000'000, all.size()), "");
  EXPECT_EQ(board_.mark(image), 0U);
  EXPECT_EQ(slice(one_, all.size(), 0), "");
  EXPECT_EQ(board_.mark(image), 8U);
  EXPECT_EQ(board_.first_not_whole(), 7U);
  EXPECT_EQ(slice(one_, 0, 1'000'000), "");
  EXPECT_TRUE(binned_) << "it has that one";
}

TEST_F(InletTest, ACopyOfTheStateThatIsTooShortOrTooLongIsRefused) {
  const Item image = link::image_of(7, 1);
  board_.come();
  greet(one_, 1);
  plan_.image_bytes = 1000;
  EXPECT_EQ(come(one_, 1, FrameHead{What::kItem, image}, std::string(900, 'x')), "");
  EXPECT_THAT(come(one_, 1, FrameHead{What::kItem, image, 0, 900}, ""),
              HasSubstr("ends after 900 bytes, not 1000"));
  one_.close();
  greet(one_, 1);
  EXPECT_THAT(come(one_, 1, FrameHead{What::kItem, image}, std::string(1001, 'x')),
              HasSubstr("more than 1000"));
  EXPECT_EQ(board_.mark(image), 0U);
}

// Nobody waits for a board that no table lists: what lies in its places may be written over.
TEST_F(InletTest, WhoIsInNoTableTakesWhatIsFarAhead) {
  board_.come();
  greet(one_, 1);
  const Item image = link::image_of(7, 1);
  EXPECT_EQ(come(one_, 1, FrameHead{What::kItem, image}, content(plan_, image, 1)), "");
  EXPECT_EQ(come(one_, 1, FrameHead{What::kItem, image, 0, plan_.image_bytes}, ""), "");
  ASSERT_EQ(board_.first_not_whole(), 7U);
  EXPECT_EQ(come(one_, 1, record(12, 1)), "");
  EXPECT_EQ(board_.mark(record(12, 1)), 13U);
}

TEST_F(InletTest, WhatFindsItsPlaceTakenWaitsAsideUntilItIsFree) {
  greet(one_, 1);
  greet(other_, 2);
  const Item item = record(0, 1);
  const std::string head = encode(FrameHead{What::kItem, item});
  const auto place = one_.landing({plan_, board_, landings_}, 1, head, 100);
  ASSERT_TRUE(place.ok() && *place);
  EXPECT_EQ(come(other_, 2, item), "");
  EXPECT_EQ(board_.mark(item), 0U);
  EXPECT_FALSE(other_.settle({plan_, board_, landings_}, 2));
  one_.close();  // its stream breaks
  landings_.drop(1);
  EXPECT_TRUE(other_.settle({plan_, board_, landings_}, 2));
  EXPECT_EQ(board_.mark(item), 1U);
  EXPECT_EQ(board_.bytes(item), content(plan_, item, 2));
  EXPECT_FALSE(other_.settle({plan_, board_, landings_}, 2));
}

// Each costs as much as there are items.
TEST_F(InletTest, ASecondHaveTellsOfABoardThatBeginsLater) {
  const auto greets = [&](std::uint64_t first) {
    return come(one_, 1, FrameHead{}, *link::encode(link::Have{.first = first}));
  };
  EXPECT_EQ(greets(link::kNever), "");
  EXPECT_THAT(greets(link::kNever), HasSubstr("a second Have"));
  EXPECT_EQ(greets(5), "");
  EXPECT_THAT(greets(5), HasSubstr("a second Have"));
  EXPECT_THAT(greets(link::kNever), HasSubstr("a second Have"));
  EXPECT_EQ(greets(6), "");
}

TEST_F(InletTest, AHaveOfWhatIsNotInThePlanIsRefused) {
  const link::Have have{.marked = {record(0, TestPlan::kShares)}};
  EXPECT_THAT(come(one_, 1, FrameHead{}, *link::encode(have)), HasSubstr("not in the plan"));
}

}  // namespace
}  // namespace lockstep::carrier::test
