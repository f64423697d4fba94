// What two agents say reaches the other once and in order, whatever connections are lost between.
#include "link/agent_talk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::link {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AgentTalk : public testing::Test {
 protected:
  AgentTalk() {
    view_.stay = {1, 1};
    open();
  }
  coord::RunWord word() const { return {.pulses = {{.goes_on = true, .waits = {}}}}; }
  void open() {
    to_host_.clear(), to_leader_.clear();
    leader_.open(word());
    host_.open(view_);
  }
  void close() { leader_.close(), host_.close(); }
  // What is on its way arrives, `most` frames of it.
  void deliver_to_host(std::size_t most = 100) {
    for (const std::string& frame : take(to_host_, most)) {
      const auto heard = host_.hear(frame);
      ASSERT_TRUE(heard.ok()) << heard.error().message;
      const auto* word = std::get_if<coord::RunWord>(&*heard);
      if (word == nullptr) told_.push_back("round");
      if (word != nullptr) told_.push_back("word");
    }
  }
  void deliver_to_leader(std::size_t most = 100) {
    for (const std::string& frame : take(to_leader_, most)) {
      const auto heard = leader_.hear(frame);
      ASSERT_TRUE(heard.ok()) << heard.error().message;
      const auto* word = std::get_if<coord::HostWord>(&*heard);
      if (word == nullptr) {
        ++answers_;
        continue;
      }
      const auto* end = std::get_if<coord::report::LoopEnded>(&word->report);
      if (end == nullptr || word->view.reported != heard_.size() + 1) continue;  // as the keeper
      heard_.push_back(end->name);
    }
  }
  void report(const std::string& name) {
    ++view_.reported;
    host_.report(view_, coord::report::LoopEnded{name});
  }

  coord::HostView view_;
  std::vector<std::string> to_host_, to_leader_, told_, heard_;
  std::size_t answers_ = 0;
  LeaderTalk leader_{1, [this](const std::string& frame) { to_host_.push_back(frame); }};
  HostTalk host_{1, [this](const std::string& frame) { to_leader_.push_back(frame); }};

 private:
  static std::vector<std::string> take(std::vector<std::string>& from, std::size_t most) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(most, from.size()));
    std::vector<std::string> some(from.begin(), from.begin() + count);
    from.erase(from.begin(), from.begin() + count);
    return some;
  }
};

TEST_F(AgentTalk, ARoundIsSaidAgainOnANewConnection) {
  ASSERT_TRUE(leader_.tell(Round{{1, 1}, {0, 1}, {}, {}}).ok());
  deliver_to_host();
  EXPECT_THAT(told_, ElementsAre("word", "round"));
  close();
  open();
  told_.clear();
  deliver_to_host();
  EXPECT_THAT(told_, ElementsAre("word", "round"));
}

TEST_F(AgentTalk, OfRoundsTheNewestIsSaidAgain) {
  close();
  for (std::uint64_t seq = 1; seq < 4; ++seq) {
    ASSERT_TRUE(leader_.tell(Round{{1, seq}, {0, 1}, {}, {}}).ok());
    ASSERT_TRUE(leader_.tell(Fills{{1, seq}, 1, {}, {}, {}}).ok());
  }
  open();
  deliver_to_host();
  EXPECT_THAT(told_, ElementsAre("word", "round", "round"));
}

TEST_F(AgentTalk, ReportsAreRepeatedUntilTheyAreHeardAndThatIsInForce) {
  report("a");
  report("b");
  deliver_to_leader(2);  // the first view, a
  close();
  report("c");
  open();
  deliver_to_leader();
  EXPECT_THAT(heard_, ElementsAre("a", "b", "c"));
  host_.forget(3);
  close();
  open();
  EXPECT_EQ(to_leader_.size(), 1U) << "what is heard is not said again";
}

TEST_F(AgentTalk, AnswersAreSaidAgain) {
  ASSERT_TRUE(host_.tell(Appended{{1, 2}, 1}).ok());
  ASSERT_TRUE(host_.tell(Answer{{1, 2}, 1, {}, {}, {}}).ok());
  ASSERT_TRUE(host_.tell(Promise{2, 1, {{1, 1}, {0, 1}, {}, {}}}).ok());
  close();
  open();
  deliver_to_leader();
  EXPECT_EQ(answers_, 3U);
}

TEST_F(AgentTalk, RecordsAreAskedForByThoseThatLackThem) {
  const WantRecords want{{1, 4}, RecordsOf::kMetrics, Txn(6), 1000, true};
  to_host_.clear(), to_leader_.clear();
  host_.say(want);
  leader_.say(RecordsPiece{want, Txn(9), "{}\n"});
  const auto asked = leader_.hear(to_leader_.at(0));
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  EXPECT_EQ(std::get<WantRecords>(std::get<RecordMessage>(*asked)), want);
  const auto come = host_.hear(to_host_.at(0));
  ASSERT_TRUE(come.ok()) << come.error().message;
  const auto piece = std::get<RecordsPiece>(std::get<RecordMessage>(*come));
  EXPECT_EQ(piece.of, want);
  EXPECT_EQ(piece.upto, Txn(9));
  EXPECT_EQ(piece.bytes, "{}\n");
  close();
  to_leader_.clear();
  host_.say(want);
  EXPECT_TRUE(to_leader_.empty());
}

TEST_F(AgentTalk, WhatTheOtherCannotSayIsRefused) {
  const auto host_refuses = [this](const std::string& frame) {
    const auto heard = host_.hear(frame);
    return heard.ok() ? std::string() : heard.error().message;
  };
  const auto leader_refuses = [this](const std::string& frame) {
    const auto heard = leader_.hear(frame);
    return heard.ok() ? std::string() : heard.error().message;
  };
  EXPECT_THAT(host_refuses(""), HasSubstr("says nothing"));
  EXPECT_THAT(leader_refuses("\x07"), HasSubstr("of no kind"));
  to_leader_.clear();
  view_.stay.host = 0;
  host_.look(view_);
  EXPECT_THAT(leader_refuses(to_leader_.back()), HasSubstr("another host"));
  ASSERT_TRUE(host_.tell(Appended{{1, 1}, 0}).ok());
  EXPECT_THAT(leader_refuses(to_leader_.back()), HasSubstr("no host answers"));
  host_.say(WantRecords{.who = {2, 1}, .from = Txn(0)});
  EXPECT_THAT(leader_refuses(to_leader_.back()), HasSubstr("another host has to ask"));
  leader_.say(RecordsPiece{{}, Txn(0), std::string(kMaxPieceBytes + 1, 'x')});
  EXPECT_THAT(host_refuses(to_host_.back()), HasSubstr("cannot be"));
  to_host_.back().pop_back();
  EXPECT_THAT(host_refuses(to_host_.back()), HasSubstr("a message of records"));
}

}  // namespace
}  // namespace lockstep::link
