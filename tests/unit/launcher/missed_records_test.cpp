// What one run directory lacks comes from others, whoever is asked and however often.
#include "launcher/linked/missed_records.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

constexpr coord::Stay kComer{1, 2};

class Missed : public testing::Test {
 protected:
  struct Host {
    test::TempFolder folder;
    Txn recorded;
  };
  // Up to there; lines of both files, an evaluation has none in the ledger. Some may be missing.
  void record(Host& host, std::uint64_t upto, Txn gap = Txn(0), Txn gap_end = Txn(0)) const {
    for (const char* name : {"/ledger.jsonl", "/metrics.jsonl"}) {
      auto file = posix_env().open_append(host.folder.path() + name);
      ASSERT_TRUE(file.ok());
      for (std::uint64_t txn = host.recorded.value(); txn < upto; ++txn) {
        if (txn % 5 == 4 && name[1] == 'l') continue;
        if (gap <= Txn(txn) && Txn(txn) < gap_end) continue;
        const std::string line = "{\"txn\":" + std::to_string(txn) + ",\"what\":\"" + name +
                                 std::string(txn * 7919 % 90'000, 'x') + "\"}\n";
        ASSERT_TRUE((*file)->append(std::as_bytes(std::span(line))).ok());
      }
    }
    host.recorded = Txn(upto);
  }
  std::string text(const Host& host, const std::string& name) const {
    auto text = posix_env().read(host.folder.path() + "/" + name, 1U << 30);
    return text.ok() ? *text : "";
  }
  void expect_same(const Host& one, const Host& other) const {
    for (const char* name : {"ledger.jsonl", "metrics.jsonl"})
      EXPECT_TRUE(text(one, name) == text(other, name)) << name;
  }
  // One question to one of them, whose answer may be lost, or come twice.
  void ask(MissedRecords& missed, const std::vector<Host*>& sources) {
    const Host& source = *sources[random_() % sources.size()];
    auto bytes = link::encode(missed.next());
    auto question = link::decode_records(bytes);
    ASSERT_TRUE(question.ok()) << question.error().message;
    auto piece = read_records(posix_env(), source.folder.path(), source.recorded,
                              std::get<link::WantRecords>(*question));
    ASSERT_TRUE(piece.ok()) << piece.error().message;
    auto answer = link::decode_records(link::encode(*piece));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    for (auto times = random_() % 3; times > 0; --times)
      ASSERT_TRUE(missed.take(std::get<link::RecordsPiece>(*answer)).ok());
  }
  MissedRecords open(const Host& host) {
    auto missed = MissedRecords::open(posix_env(), host.folder.path(), kComer, host.recorded);
    EXPECT_TRUE(missed.ok()) << missed.error().message;
    return *std::move(missed);
  }
  std::mt19937_64 random_{11};
};

TEST_F(Missed, AllComesWhileOthersGoOn) {
  for (const std::uint64_t had : {0U, 1U, 24U, 25U}) {
    Host one, other, comer;
    record(comer, had);
    for (Host* host : {&one, &other}) record(*host, 25);
    MissedRecords missed = open(comer);
    for (int i = 0; missed.upto() < Txn(60) && i < 2000; ++i) {
      if (random_() % 4 == 0)
        for (Host* host : {&one, &other})
          record(*host, std::min<std::uint64_t>(60, host->recorded.value() + random_() % 9));
      ask(missed, {&one, &other});
    }
    for (Host* host : {&one, &other}) record(*host, 60);
    EXPECT_EQ(missed.upto(), Txn(60));
    expect_same(comer, one);
  }
}

TEST_F(Missed, WhatIsBehindIsCut) {
  Host one, comer;
  record(comer, 40);
  record(one, 50);
  comer.recorded = Txn(30);
  MissedRecords missed = open(comer);
  EXPECT_LT(text(comer, "metrics.jsonl").size(), text(one, "metrics.jsonl").size());
  for (int i = 0; missed.upto() < Txn(50) && i < 200; ++i) ask(missed, {&one});
  expect_same(comer, one);
}

TEST_F(Missed, WhoeverHasLessGivesWhatItHas) {
  Host one, behind, comer;
  record(one, 50);
  record(behind, 10);
  MissedRecords missed = open(comer);
  for (int i = 0; missed.upto() < Txn(50) && i < 500; ++i) ask(missed, {&one, &behind});
  EXPECT_EQ(missed.upto(), Txn(50));
  expect_same(comer, one);
}

// One has come back itself, and has a gap there.
TEST_F(Missed, PiecesOfUnlikeFilesMakeWholeLines) {
  for (std::uint64_t end = 4; end < 40; end += 5) {
    Host one, other, comer;
    record(one, 40);
    record(other, 40, Txn(end - 3), Txn(end));
    MissedRecords missed = open(comer);
    for (int i = 0; missed.upto() < Txn(40) && i < 500; ++i) ask(missed, {&one, &other});
    ASSERT_EQ(missed.upto(), Txn(40));
    for (const char* name : {"ledger.jsonl", "metrics.jsonl"}) {
      std::istringstream all(text(one, name)), copied(text(comer, name));
      std::string line, wanted;
      while (std::getline(copied, line)) {
        while (std::getline(all, wanted) && wanted != line) {
        }
        ASSERT_EQ(line.substr(0, 40), wanted.substr(0, 40)) << name << ", gap before " << end;
      }
    }
  }
}

// As the ids of a large batch make them.
TEST_F(Missed, LinesThatAreLongerThanAPiece) {
  Host one, other, comer;
  for (const Host* host : {&one, &other}) {
    auto file = posix_env().open_append(host->folder.path() + "/ledger.jsonl");
    ASSERT_TRUE(file.ok());
    for (int line = 0; line < 14; ++line) {  // two of each transaction
      const std::string text = "{\"txn\":" + std::to_string(1 + line / 2) +
                               ",\"ids\":" + std::string(line % 3 * 300'000 + line, '1') + "}\n";
      ASSERT_TRUE((*file)->append(std::as_bytes(std::span(text))).ok());
    }
  }
  one.recorded = other.recorded = Txn(8);
  MissedRecords missed = open(comer);
  for (int i = 0; missed.upto() < Txn(8) && i < 500; ++i) ask(missed, {&one, &other});
  EXPECT_EQ(missed.upto(), Txn(8));
  EXPECT_TRUE(text(comer, "ledger.jsonl") == text(one, "ledger.jsonl"));
}

// Of a host that has an older state than the others, and has recorded nothing in this run.
TEST_F(Missed, LinesThatAreNotOfThisRunAreNotGiven) {
  Host one, other, comer;
  record(one, 20);
  record(other, 30);
  other.recorded = Txn(0);
  MissedRecords missed = open(comer);
  for (int i = 0; missed.upto() < Txn(20) && i < 500; ++i) ask(missed, {&one, &other});
  expect_same(comer, one);
}

TEST_F(Missed, ItSaysWhenItHasBeenAtBothEnds) {
  Host one, comer;
  record(one, 50);
  MissedRecords missed = open(comer);
  EXPECT_FALSE(missed.next().near);
  for (int i = 0; missed.upto() == Txn(0) && i < 200; ++i) {
    EXPECT_FALSE(missed.next().near);
    ask(missed, {&one});
  }
  EXPECT_TRUE(missed.next().near);
}

TEST_F(Missed, OthersAnswersAreNotTaken) {
  Host one, comer;
  record(one, 5);
  MissedRecords missed = open(comer);
  auto piece = read_records(posix_env(), one.folder.path(), one.recorded, missed.next());
  ASSERT_TRUE(piece.ok());
  for (const auto& spoil : std::vector<std::function<void(link::WantRecords&)>>{
           [](auto& of) { of.who.count = 1; }, [](auto& of) { of.from = Txn(1); },
           [](auto& of) { of.skip = 1; }}) {
    link::RecordsPiece other = *piece;
    spoil(other.of);
    const auto taken = missed.take(other);
    ASSERT_TRUE(taken.ok());
    EXPECT_FALSE(*taken);
  }
  EXPECT_TRUE(text(comer, "ledger.jsonl").empty());
}

}  // namespace
}  // namespace lockstep::launcher
