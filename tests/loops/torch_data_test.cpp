// Random numbers in a map() of libtorch's data sets: another worker, or another try, would fetch
// another batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

class TorchData : public ::testing::Test {
 protected:
  Outcome launched(int workers, const std::string& name) const {
    std::filesystem::remove_all(folder_ / "run");
    return run({LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers), TORCH_DATA_WORKER, name, folder_ / "run"});
  }
  TempFolder folder_;
};

// The rehearsal fetches again, in each update.
TEST_F(TorchData, AMapThatDrawsIsFound) {
  for (const auto& [name, where] : {std::pair("first", "step 0, update 0: the loss of"),
                                    std::pair("second", "step 0, update 1: the loss of")}) {
    const Outcome outcome = launched(1, name);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(where), std::string::npos) << outcome.err;
  }
}

// Before that, where several see other samples from the start on.
TEST_F(TorchData, OneThatDrawsOtherNumbersInEachWorkerIsFound) {
  const Outcome outcome = launched(3, "first");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("Every worker must have all samples"), std::string::npos)
      << outcome.err;
}

TEST_F(TorchData, OneThatDrawsFromPyTorchsGeneratorIsRight) {
  std::set<std::string> hashes;
  for (const int workers : {1, 3}) {
    const Outcome outcome = launched(workers, "default-generator");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto at = outcome.out.find("weights sha256 ");
    ASSERT_NE(at, std::string::npos) << outcome.out;
    hashes.insert(outcome.out.substr(at));
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST_F(TorchData, OneThatGoesByTheRowIsNot) {
  for (const int workers : {1, 3}) {
    const Outcome outcome = launched(workers, "by-row");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::test
