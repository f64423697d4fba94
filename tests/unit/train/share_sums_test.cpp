#include "train/share_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/guard.h"
#include "train/lines.h"
#include "transaction/noted_sums.h"

namespace lockstep::training {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string refused(const std::string& name, double sum = 1, std::int64_t count = 1) {
  ShareSums sums;
  try {
    sums.add(name, sum, count);
  } catch (const Thrown& thrown) {
    EXPECT_EQ(thrown.kind(), ErrorKind::kUsage);
    return thrown.what();
  }
  return "";
}

TEST(ShareSums, NamesAreShortIdentifiers) {
  for (const char* name : {"a", "_", "kl", "loss/policy", "a.b-c_d/E9", "train_reward"})
    EXPECT_EQ(refused(name), "") << name;
  EXPECT_EQ(refused(std::string(31, 'x')), "");
  for (const std::string& name :
       {std::string(), std::string(32, 'x'), std::string("9a"), std::string("-a"),
        std::string("a b"), std::string("a\"b"), std::string("a\n"), std::string("a\0b", 3),
        std::string("\xc3\xa4"), std::string("loss"), std::string("sums"), std::string("epoch")})
    EXPECT_NE(refused(name), "") << name;
}

// All that a line of metrics.jsonl has besides is refused.
TEST(ShareSums, NoNameIsAKeyOfTheMetrics) {
  EpochEnd end;
  end.broken = true;
  end.count = end.train_replaced = end.left_out = 1;
  Score score{1, 1, 1};
  score.left_out = 1;
  const StepFigures step{
      .rates = {1}, .grad_norm = 1.0, .scale = 1.0, .skipped = true, .replaced = 1, .update = 1};
  std::string lines = step_metrics(Txn(0), {}, step) + export_metrics(Txn(0), {}, true);
  for (const EvaluatedOn set : {EvaluatedOn::kTestSet, EvaluatedOn::kValidationSet})
    lines += epoch_metrics(Txn(0), {}, end, set) + evaluation_metrics(Txn(0), {}, score, set);
  std::istringstream in(lines);
  int keys = 0;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    for (const auto& [key, value] : json.items()) {
      EXPECT_NE(refused(key), "") << key;
      ++keys;
    }
  }
  EXPECT_GT(keys, 40);
}

TEST(ShareSums, CountsHaveLimits) {
  EXPECT_EQ(refused("a", 1, 0), "");
  EXPECT_NE(refused("a", 1, -1).find("a count of -1; at least 0"), std::string::npos);
  const std::int64_t most = std::int64_t{1} << 52;
  EXPECT_EQ(refused("a", 1, most), "");
  EXPECT_NE(refused("a", 1, most + 1), "");
  ShareSums sums;
  sums.add("a", 1, most);
  EXPECT_THROW(sums.add("a", 1, 1), Thrown);
  sums.add("a", 1, 0);
  EXPECT_EQ(sums.sums()["a"].sum, 2);
}

TEST(ShareSums, AreSixteenAtMost) {
  ShareSums sums;
  for (int i = 0; i < 16; ++i) sums.add("n" + std::to_string(i), i, 1);
  sums.add("n3", 1, 1);
  EXPECT_EQ(sums.sums()["n3"].sum, 4);
  EXPECT_THROW(sums.add("n16", 1, 1), Thrown);
  sums.begin_share();
  EXPECT_TRUE(sums.sums().empty());
}

TEST(ShareSums, WhatIsNoNumberIsKept) {
  ShareSums sums;
  sums.add("nan", -std::numeric_limits<double>::quiet_NaN(), 2);
  sums.add("inf", kInfinity, 1);
  sums.add("none", 0, 0);
  EXPECT_FALSE(std::signbit(sums.sums()["nan"].sum));
  EXPECT_TRUE(std::isnan(sums.sums()["none"].mean()));
  EXPECT_TRUE(std::isnan(sums.sums()["unknown"].mean()));
  const std::string line = step_metrics(Txn(0), {}, {.sums = sums.sums()});
  EXPECT_NE(line.find(R"(,"inf":null,"nan":null,"none":null,)"
                      R"("sums":{"inf":[null,1],"nan":[null,2],"none":[0,0]}})"),
            std::string::npos)
      << line;
  sums.add("inf", -kInfinity, 1);
  EXPECT_TRUE(std::isnan(sums.sums()["inf"].sum));
  EXPECT_FALSE(std::signbit(sums.sums()["inf"].sum));
}

TEST(ShareSums, NotesGiveThemBack) {
  std::vector<coord::Word> words(transaction::NotedSums::kWords);
  const transaction::NotedSums notes{words};
  EXPECT_TRUE(notes.read().empty());
  Sums sums;
  for (int i = 0; i < 16; ++i)
    sums.add(std::string(static_cast<std::size_t>(31 - i), static_cast<char>('a' + i)),
             {1.0 / (i + 1), i});
  notes.write(sums);
  const Sums read = notes.read();
  ASSERT_EQ(read.size(), 16U);
  for (const auto& [name, sum] : sums) {
    EXPECT_EQ(read[name].sum, sum.sum) << name;
    EXPECT_EQ(read[name].count, sum.count) << name;
  }
  Sums one;
  one.add("short", {2, 1});
  notes.write(one);  // the places' old names are longer
  EXPECT_EQ(notes.read().size(), 1U);
  EXPECT_EQ(notes.read()["short"].sum, 2);
  words[0].store(1'000'000);  // whatever it is, it is read from its place alone
  EXPECT_EQ(notes.read().size(), 16U);
}

TEST(ShareSums, MoreThanAnInt64HasAreAsManyAsItHas) {
  Sums sums;
  for (int i = 0; i < 3; ++i) sums.add("a", {0, std::int64_t{1} << 62});
  EXPECT_EQ(sums["a"].count, std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace lockstep::training
