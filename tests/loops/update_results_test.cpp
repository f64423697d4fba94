// What run() gives of a step, and what shares add up in it (updates_worker.cpp): V = 4, three
// updates a step.
#include "base/text.h"
#include "loops/updates_runs.h"

namespace lockstep::test {
namespace {

class UpdateResults : public Updates {};

// Of each update what metrics.jsonl has of it.
TEST_F(UpdateResults, RunGivesWhatTheyWere) {
  const Outcome outcome = launched(1, "both");
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  const auto results = results_in(outcome);
  EXPECT_EQ(results.size(), 96U);
  for (const std::string& line : results) {
    if (line.find(" sums ") != line.npos) continue;
    int step = 0, update = 0, left_out = 0;
    double loss = 0, mean = 0, norm = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "result %d.%d loss %la mean %la norm %la left out %d",
                          &step, &update, &loss, &mean, &norm, &left_out),
              6)
        << line;
    EXPECT_EQ(left_out, 0) << line;
    EXPECT_GT(norm, 0.01) << line;
    std::ostringstream record;
    record << "\"step\":" << step << ",\"epoch\":" << step / 12 << ",\"update\":" << update
           << ",\"loss\":" << shortest(loss);
    const auto at = metrics.find(record.str());
    ASSERT_NE(at, std::string::npos) << record.str() << " in " << metrics;
    const std::string rest = metrics.substr(at, metrics.find('\n', at) - at);
    EXPECT_EQ(count(rest, "\"loss_mean\":" + shortest(mean) + ","), 1) << rest << "; " << line;
    EXPECT_EQ(count(rest, ",\"grad_norm\":" + shortest(norm) + ","), 1) << rest << "; " << line;
  }
}

// In the order of virtual workers ((1e16 + 1) - 1e16) + 1 is 1; of updates: 1 + 2 + 4.
TEST_F(UpdateResults, HaveTheSumsThatSharesAdd) {
  const Outcome outcome = launched(3, "right", {"--inject", "kill rank=1 txn=16 phase=backward"});
  EXPECT_EQ(killed_in(outcome), 1) << outcome.err;
  EXPECT_EQ(count(outcome.out, " order 0x1p+0\n"), count(outcome.out, ".0 loss "));
  EXPECT_EQ(count(outcome.out, " order 0x1.cp+2/12"), count(outcome.out, " sums "));
  EXPECT_EQ(count(outcome.out, " late "), count(outcome.out, " sums "));
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, ",\"order\":0.25,\"sums\":{\"inputs\":["), 24);
  EXPECT_EQ(count(metrics, ",\"order\":[1,4]}}\n"), 24);
  EXPECT_EQ(count(metrics, ",\"late\":[20,8],"), 1);
  EXPECT_EQ(count(metrics, ",\"nan\":null,\"order\":"), 3);
  EXPECT_EQ(count(metrics, ",\"nan\":[null,1],"), 3);
}

TEST_F(UpdateResults, SixteenNamesHaveRoom) {
  const Outcome outcome = launched(1, "sum-16");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\"a_name.that-is/as-long-as_it_mo\":["), count(metrics, "\n"));
}

// Though losses and gradients are the same.
TEST_F(UpdateResults, SumsThatDependOnTheRankAreFound) {
  for (const char* words :
       {"what virtual worker 0 adds up as 'rank' is 0 of 1 in rank 0 and 1 of 1 in rank 1",
        "the train state and on its Share alone"})
    expect_refused("sum-by-rank", words);
  expect_refused("sum-name-by-rank",
                 "adds up as 'rank0' is 1 of 1 in rank 0 and nothing in rank 1");
}

TEST_F(UpdateResults, NamesAndCountsThatMakeNoSenseAreRefused) {
  expect_refused("sum-empty", "Share::add() with the name '', of 0 bytes; from 1 to 31");
  expect_refused("sum-long", "of 32 bytes; from 1 to 31");
  expect_refused("sum-letters", "'a b'; a name is of letters, digits and _ . / -");
  expect_refused("sum-key", "'loss_mean', which metrics.jsonl uses itself");
  expect_refused("sum-count", "Share::add(\"a\") with a count of -1; at least 0");
  expect_refused("sum-kept", "Share::add() outside of the share's closure");
  expect_refused("sum-17", "Share::add(\"n16\"): shares add 17 names");
  expect_refused("sum-20-of-all", "step 0, update 0: shares add 21 names (Share::add()), 'all', ");
}

}  // namespace
}  // namespace lockstep::test
