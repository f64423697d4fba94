#include "rundir/redone.h"

#include <gtest/gtest.h>

#include "rundir/record_file.h"
#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

// Of transaction and step T, with `more` in it.
std::string line(int t, const std::string& hex, const std::string& more = "") {
  const std::string number = std::to_string(t);
  return "{\"txn\":" + number + ",\"step\":" + number + ",\"loss\":0.5,\"loss_hex\":\"" + hex +
         "\"" + more + "}\n";
}

// What is told of the two as one line; empty: nothing.
std::string told(const std::string& before, const std::string& now) {
  Redone redone(before);
  const auto difference = redone.compare(now);
  return difference ? difference->text : "";
}

TEST(Redone, NamesTheFirstStepThatDiffersWithBothValuesAndOnce) {
  Redone redone(line(4, "0x1p-1") + line(5, "0x1p-1") + line(6, "0x1p-1"));
  EXPECT_FALSE(redone.compare(line(4, "0x1p-1")));
  const auto difference = redone.compare(line(5, "0x1.8p-1"));
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->text,
            "step 5 came out otherwise as it was done again: its loss is 0.5 (0x1.8p-1), it was "
            "0.5 (0x1p-1)");
  std::string before = line(5, "0x1p-1");
  before.pop_back();
  EXPECT_EQ(difference->lines, line(5, "0x1.8p-1", ",\"before\":" + before));
  EXPECT_TRUE(difference->promised);
  EXPECT_TRUE(redone.over());
  EXPECT_FALSE(redone.compare(line(6, "0x1.8p-1")));
}

TEST(Redone, ComparesWhatBothHave) {
  EXPECT_EQ(told(line(1, "nan"), line(1, "nan", ",\"lr\":0.1")), "");
  EXPECT_NE(told(line(1, "nan"), line(1, "inf")), "");
  EXPECT_EQ(told(line(1, "0x0p+0"), line(1, "0x0p+0", ",\"grad_norm\":1")), "");
  EXPECT_NE(told(line(1, "0x0p+0", ",\"loss_mean\":1"), line(1, "0x0p+0", ",\"loss_mean\":2"))
                .find("its mean loss over all shares is 2, it was 1"),
            std::string::npos);
  EXPECT_NE(told(line(1, "0x0p+0", ",\"grad_norm\":1.5"), line(1, "0x0p+0", ",\"grad_norm\":null"))
                .find("its gradients' norm is not finite, it was 1.5"),
            std::string::npos);
  // Which explains the loss.
  EXPECT_NE(
      told(line(1, "0x0p+0", ",\"state_xxh3\":\"a\""), line(1, "0x1p+0", ",\"state_xxh3\":\"b\""))
          .find("its train state is another one at the step's start"),
      std::string::npos);
  EXPECT_EQ(told(line(1, "0x0p+0"), line(1, "0x0p+0", ",\"state_xxh3\":\"b\"")), "");
  EXPECT_NE(told(line(1, "0x0p+0", ",\"ends\":true"), line(1, "0x0p+0"))
                .find("it does not end the run, it did"),
            std::string::npos);
  EXPECT_NE(told(line(1, "0x0p+0"), line(1, "0x0p+0", ",\"ends\":true"))
                .find("it ends the run, it did not"),
            std::string::npos);
  const auto sums = [](const char* text) { return line(1, "0x0p+0", text); };
  EXPECT_EQ(told(sums(",\"sums\":{\"a\":[1,2]}"), sums(",\"sums\":{\"b\":[3,4],\"a\":[1,2]}")), "");
  EXPECT_NE(told(sums(",\"sums\":{\"a\":[1,2]}"), sums(",\"sums\":{\"a\":[3,2]}"))
                .find("its sum and count of 'a' is [3,2], it was [1,2]"),
            std::string::npos);
  EXPECT_NE(told(line(1, "0x0p+0", ",\"update\":1"), line(1, "0x1p+0", ",\"update\":1"))
                .find("step 1, update 1 came"),
            std::string::npos);
}

TEST(Redone, WhatWasGivenUpIsNoErrorOrNotCompared) {
  const std::string off = ",\"redone\":\"off\"", warn = ",\"redone\":\"warn\"";
  EXPECT_EQ(told(line(1, "0x0p+0", off), line(1, "0x1p+0")), "");
  EXPECT_EQ(told(line(1, "0x0p+0"), line(1, "0x1p+0", off)), "");
  Redone redone(line(1, "0x0p+0"));
  const auto difference = redone.compare(line(1, "0x1p+0", warn));
  ASSERT_TRUE(difference);
  EXPECT_FALSE(difference->promised);
}

TEST(Redone, LinesThatAreMissingDamagedOrOfSomethingElseAreNotCompared) {
  const std::string epoch = "{\"txn\":2,\"step\":1,\"test_loss\":1}\n";
  for (const std::string& before :
       {std::string(), std::string("\n"), epoch, std::string("{\"txn\":1,\"step\"\n"),
        std::string("damaged\n"), line(3, "0x0p+0")}) {
    Redone redone(before);
    for (const std::string& now : {line(1, "0x1p+0"), std::string("no record\n"), std::string("x"),
                                   std::string("{\"txn\":2,\"test_loss\":2}\n")})
      EXPECT_FALSE(redone.compare(now)) << before << now;
  }
  EXPECT_NE(told("damaged\n" + line(0, "0x0p+0") + epoch + line(3, "0x0p+0"), line(3, "0x1p+0")),
            "");
}

// What an earlier start has found is told again, as long as it is done again; but it is no error of
// this one's. And one line is kept of it, not one of each time.
TEST(Redone, WhatWasFoundBeforeIsToldAgain) {
  const auto recorded = [](const std::string& before, const std::string& now) {
    return Redone(before).compare(now).value();
  };
  const Redone::Difference first = recorded(line(1, "0x0p+0"), line(1, "0x1p+0"));
  const Redone::Difference again = recorded(first.lines, line(1, "0x1p+0"));
  EXPECT_EQ(again.text, first.text);
  EXPECT_EQ(again.lines, first.lines);
  EXPECT_FALSE(again.promised);
  const Redone::Difference other = recorded(first.lines, line(1, "0x1p+1"));
  EXPECT_EQ(other.lines, recorded(line(1, "0x1p+0"), line(1, "0x1p+1")).lines);
  EXPECT_TRUE(other.promised);
  EXPECT_EQ(told(first.lines, line(1, "0x0p+0")).find("step 1 "), 0U);
}

TEST(RecordFile, GivesWholeLinesOfWhatIsCutOff) {
  const test::TempFolder folder;
  const std::string path = folder / "metrics.jsonl";
  const auto cut_at = [&](int next, std::uint64_t most) {
    EXPECT_TRUE(write_atomically(posix_env(), path,
                                 line(0, "0x0p+0") + line(1, "0x1p+0") + line(2, "0x1p+1") + "{\"t")
                    .ok());
    auto opened =
        open_records(posix_env(), path, Txn(0), Txn(static_cast<std::uint64_t>(next)), most);
    EXPECT_TRUE(opened.ok());
    return opened.ok() ? opened->cut : "";
  };
  const std::uint64_t size = line(1, "0x1p+0").size();
  EXPECT_EQ(cut_at(1, 1000), line(1, "0x1p+0") + line(2, "0x1p+1"));
  EXPECT_EQ(folder.read("metrics.jsonl"), line(0, "0x0p+0"));
  EXPECT_EQ(cut_at(1, size), line(1, "0x1p+0"));
  EXPECT_EQ(cut_at(1, size - 1), "");
  EXPECT_EQ(cut_at(0, size), line(0, "0x0p+0"));
  EXPECT_EQ(cut_at(1, 0), "");
  EXPECT_EQ(cut_at(3, 1000), "");
}

}  // namespace
}  // namespace lockstep::rundir
