// What the launchers of a run on several nodes say of its end: the whole report at the leader and
// where the root cause was, one line elsewhere, and the root cause to whoever started each of them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fault/nodes_support.h"

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NodesReport : public ThreeNodes {
 protected:
  // Rank `bad` does `what`; a little after its end all others end with 1, as if a peer were gone.
  void run_with(int bad, const std::string& what, int code = 1) {
    const std::string program = script(
        "train", "#!/bin/sh\nbad=" + (folder_ / "bad") + "\nif [ $RANK = " + std::to_string(bad) +
                     " ]; then echo $$ > $bad; sleep 0.1; " + what +
                     "; fi\nuntil [ -s $bad ]; do sleep 0.05; done\n"
                     "while kill -0 $(cat $bad) 2> /dev/null; do sleep 0.05; done\n"
                     "sleep " +
                     others_last_ + "; exit 1\n");
    for (const int rank : {0, 1, 2})
      start(rank, {program}, {}, {{"TORCHELASTIC_ERROR_FILE", error_file(rank)}});
    for (const int rank : {0, 1, 2}) {
      ends_.push_back(launcher(rank)->wait(std::chrono::seconds(60)));
      EXPECT_EQ(ends_.back().code, code) << ends_.back().err;
    }
  }
  std::string error_file(int rank) const { return folder_ / ("error" + std::to_string(rank)); }
  std::string told(int rank) const { return ends_[static_cast<std::size_t>(rank)].err; }

  std::vector<Outcome> ends_;
  std::string others_last_ = "0.3";  // seconds
};

TEST_F(NodesReport, AnErrorFileOnAnotherNode) {
  run_with(3, R"(echo '{"message": {"message": "ValueError: bad data", "extraInfo": )"
              R"({"py_callstack": "Traceback: ValueError: bad data", "timestamp": "1700000000"}}}')"
              R"( > $TORCHELASTIC_ERROR_FILE; exit 7)");
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(told(rank), HasSubstr("error: node 1 (127.0.0.1): rank 3 (local rank 1) ended with "
                                      "exit 7"));
    const auto json = nlohmann::json::parse(read_text(error_file(rank)))["message"];
    EXPECT_EQ(json["message"], "ValueError: bad data");
    EXPECT_EQ(json["errorCode"], 7);
  }
  for (const int rank : {0, 1})
    EXPECT_THAT(told(rank), AllOf(HasSubstr("Root Cause (first observed failure):"),
                                  HasSubstr("rank      : 3 (local_rank: 1)\n"),
                                  HasSubstr("exitcode  : 7 (pid: "),
                                  HasSubstr("traceback : Traceback: ValueError: bad data\n")));
  EXPECT_THAT(told(2), Not(HasSubstr("Root Cause")));
}

TEST_F(NodesReport, AtTheLeader) {
  run_with(0, "kill -9 $$", 75);
  EXPECT_THAT(told(0), AllOf(HasSubstr("Root Cause"), HasSubstr("Signal 9 (SIGKILL) received")));
  for (const int rank : {1, 2}) {
    EXPECT_THAT(told(rank), AllOf(HasSubstr("rank 0 (local rank 0) ended with "),
                                  Not(HasSubstr("Root Cause"))));
    const auto json = nlohmann::json::parse(read_text(error_file(rank)))["message"];
    EXPECT_THAT(json["message"].get<std::string>(), HasSubstr("Signal 9 (SIGKILL)"));
    EXPECT_EQ(json["errorCode"], -9);
  }
}

// However much a worker has written, the others are told a little of it: its end.
TEST_F(NodesReport, AnErrorFileOfAMegabyte) {
  others_last_ = "5";  // under sanitizers it takes a while to read
  run_with(5, R"((printf '{"message": {"message": "'; head -c 900000 /dev/zero | tr '\0' x; )"
              R"(printf ' the end"}}') > $TORCHELASTIC_ERROR_FILE; exit 3)");
  EXPECT_GT(std::filesystem::file_size(error_file(2)), 900'000U);
  for (const int rank : {0, 1}) {
    const std::string text = read_text(error_file(rank));
    EXPECT_LT(text.size(), 100'000U);
    EXPECT_THAT(text, HasSubstr("xxx the end"));
  }
  EXPECT_THAT(told(0), HasSubstr("bytes before this are on its node)"));
}

TEST_F(NodesReport, ThePlaceOfEachNodeIsSaidOnce) {
  run_with(2, "exit 4");
  EXPECT_THAT(told(0), HasSubstr("node 0 of 3 (127.0.0.1) leads: 2 of 6 workers; the store is at " +
                                 endpoint_ + "; when a worker dies, all on all nodes"));
  EXPECT_THAT(told(2), HasSubstr("node 2 of 3 (127.0.0.1): 2 of 6 workers; node 0 (" + endpoint_ +
                                 ") leads; the store is at " + endpoint_));
}

}  // namespace
}  // namespace lockstep::test
