// `lockstep scale` and `lockstep status` at any moment of a run.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/unique_fd.h"
#include "fault/launcher_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Control : public ToyRun {
 protected:
  Outcome scale(int workers) const {
    return run({LOCKSTEP_PROGRAM, "scale", run_dir(), std::to_string(workers)});
  }
  Outcome status() const { return run({LOCKSTEP_PROGRAM, "status", run_dir(), "--json"}); }
  bool wait_for_socket() const {
    return until([&] { return std::filesystem::exists(run_dir() + "/.tmp-lockstep-control"); });
  }
};

TEST_F(Control, ScaleWaitsForTheFirstStep) {
  Child launcher(command({"--nproc-per-node", "2"},
                         {"--txns", "600", "--step-us", "1000", "--load-ms", "1500"}));
  ASSERT_TRUE(wait_for_socket());
  const Outcome answer = scale(3);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, "from 2 to 3 workers\n");
  EXPECT_EQ(last_line(launcher.wait().out), expected("600"));
}

// Ranks belong to a world of `world_size`, and nobody shares one, nor a local rank and its logs.
void check(const nlohmann::json& status) {
  std::set<int> ranks, local_ranks;
  for (const auto& member : status["members"]) {
    EXPECT_TRUE(local_ranks.insert(member["local_rank"].get<int>()).second) << status;
    if (member["rank"].is_null()) continue;
    EXPECT_TRUE(ranks.insert(member["rank"].get<int>()).second) << status;
    EXPECT_LT(member["rank"].get<int>(), status["world_size"].get<int>()) << status;
  }
}

TEST_F(Control, StatusIsOfOnePiece) {
  Child launcher(command({"--nproc-per-node", "3"}, {"--txns", "100000", "--step-us", "10000"}));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  for (int round = 0; round < 8; ++round) {
    for (const int workers : {1, 4}) {  // the second while the first ones are still leaving
      const Outcome scaled = scale(workers);
      EXPECT_EQ(scaled.code, 0) << scaled.err;
    }
    for (int i = 0; i < 12; ++i) {
      const Outcome answer = status();
      ASSERT_EQ(answer.code, 0) << answer.err;
      check(nlohmann::json::parse(answer.out));
    }
  }
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait().code, 130);
}

// Each field is in the guide, of the whole and of a member.
void expect_documented(const nlohmann::json& status) {
  const std::string page = read_text(LOCKSTEP_GUIDE "/inspect.md");
  for (const nlohmann::json& object : {status, status["members"].front()})
    for (const auto& [key, value] : object.items())
      EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
}

// While the highest ranks are on their way out there are more than wanted, and never "3 of 1".
TEST_F(Control, StatusSaysHowManyAreAboutToLeave) {
  Child launcher(command({"--nproc-per-node", "3"}, {"--txns", "100000", "--step-us", "5000000"}));
  ASSERT_TRUE(launcher.wait_for_output("step 1\n"));
  EXPECT_THAT(run({LOCKSTEP_PROGRAM, "status", run_dir()}).out,
              HasSubstr("running: 3 of 3 workers,"));
  expect_documented(nlohmann::json::parse(status().out));
  ASSERT_EQ(scale(1).code, 0);
  EXPECT_THAT(run({LOCKSTEP_PROGRAM, "status", run_dir()}).out,
              HasSubstr("running: 3 workers (2 about to leave),"));
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait().code, 130);
}

TEST_F(Control, AQuestionAtTheEndIsAnsweredByTheRecords) {
  Child launcher(command({"--nproc-per-node", "2"}, {"--txns", "700", "--step-us", "200"}));
  ASSERT_TRUE(wait_for_socket());
  for (Outcome answer; (answer = status()).out.find("launcher_pid") != std::string::npos;)
    ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(launcher.wait().code, 0);
  const Outcome late = status();
  EXPECT_EQ(late.code, 0) << late.err;
  EXPECT_THAT(late.out, HasSubstr(R"("committed":700)"));
  const Outcome scaled = scale(1);
  EXPECT_EQ(scaled.code, 69);
  EXPECT_THAT(scaled.err, HasSubstr("no launcher"));
}

TEST_F(Control, BytesThatAreNotUtf8AreShown) {
  const std::string name = "r\xe9n \x1b[2J";
  Child launcher(command({"--nproc-per-node", "2", "--rdzv-id", "job-\xe9", "--role", "\xff"},
                         {"--txns", "100000", "--step-us", "10000"}, name));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  for (const bool json : {true, false}) {
    Words words{LOCKSTEP_PROGRAM, "status", run_dir(name)};
    if (json) words.emplace_back("--json");
    const Outcome answer = run(words);
    ASSERT_EQ(answer.code, 0) << answer.err;
    if (json) {
      EXPECT_EQ(nlohmann::json::parse(answer.out)["run_id"], "job-\\xe9");
    }
  }
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait().code, 130);
  const Outcome stopped = run({LOCKSTEP_PROGRAM, "status", run_dir(name)});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  const Outcome scaled = run({LOCKSTEP_PROGRAM, "scale", run_dir(name), "2"});
  EXPECT_THAT(scaled.err, HasSubstr("r\\xe9n \\x1b[2J"));
}

// Packets of all lengths, from clients that hang up at any moment.
TEST_F(Control, NothingOnItsSocketHarmsTheRun) {
  Child launcher(command({"--nproc-per-node", "2"}, {"--txns", "100000", "--step-us", "10000"}));
  ASSERT_TRUE(launcher.wait_for_output("step 2\n"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run_dir() + "/.tmp-lockstep-control";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    std::string packet(random() % 300, '\0');
    for (char& byte : packet) byte = static_cast<char>(random() % (i % 2 == 0 ? 256 : 8));
    (void)::send(client.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  const Outcome answer = status();
  EXPECT_EQ(answer.code, 0) << answer.err;
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait().code, 130);
}

}  // namespace
}  // namespace lockstep::test
