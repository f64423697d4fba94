// Who asks how a run on several nodes is: over the control plane with the key, and on this machine.
#include "launcher/nodes/answers.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "control/sockets.h"
#include "launcher/commands/ask.h"
#include "launcher/commands/status_text.h"
#include "star/hub.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using star::message::Answer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "0123456789abcdef0123456789abcdef";
constexpr int kNodes = 3000;

// Of a run whose `kNodes` nodes are all there.
Answer of_nodes(int from, int most, bool leads = true) {
  Answer answer;
  answer.run_id = "run";
  answer.host = "host0";
  answer.endpoint = "10.0.0.1:29400";
  answer.view.leads = leads;
  answer.view.rank = answer.view.leader_rank = 0;
  answer.view.state = nodes::View::State::kRunning;
  answer.view.nodes = kNodes;
  answer.view.attempt = 2;
  for (int rank = from; rank < std::min(kNodes, from + most); ++rank)
    answer.view.members.push_back({rank, true, true, true, "10.0.0.2", "host", 4, 1'500'000'000});
  return answer;
}

// A leader with a key on a port of the loopback address, and its answers, on a thread of their own.
class Asked : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("LOCKSTEP_INSECURE");
    ::setenv("LOCKSTEP_RUN_KEY", kKey, 1);
    auto socket = control::listen_at(*control::Address::numeric("127.0.0.1", 0));
    ASSERT_TRUE(socket.ok());
    port_ = control::Address::local_of(socket->get())->port();
    std::vector<star::Hub::ListenSocket> sockets;
    sockets.push_back(
        {*std::move(socket), *control::TlsSettings::of(*control::RunKey::of(kKey, "test"))});
    star::Hub::Plan plan;
    plan.rules.nodes = 2;
    plan.party = {control::kProtocol, 1, "1.2.3"};
    star::Hub::Events events;
    events.news = [] {};
    events.asked = [this](const auto& connection, const star::Message& question) {
      answers_->come(connection, question);
    };
    answers_ = std::make_unique<Answers>(
        loop_, *timers_,
        Answers::Events{
            [](const auto& query) { return of_nodes(query.from, Answers::kMostMembers); },
            [this](const std::string& /*from*/) {
              ++stops_;
              Answer answer = of_nodes(0, 0);
              answer.stops = stops_ == 1;
              return answer;
            }});
    ASSERT_TRUE(answers_->listen(run_id_, plan.party).ok());
    hub_ =
        *star::Hub::open(loop_, *timers_, std::move(sockets), std::move(plan), std::move(events));
    thread_ = std::thread([this] {
      while (!over_) loop_.run_once(Deadline::in(5ms));
    });
  }
  void TearDown() override {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    ::unsetenv("LOCKSTEP_RUN_KEY");
  }

  const std::string run_id_ = "run " + std::to_string(::getpid());
  Loop loop_ = *Loop::open();
  std::unique_ptr<control::Timers> timers_ = *control::Timers::open(loop_);
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<star::Hub> hub_;
  int port_ = 0;
  std::atomic<int> stops_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

TEST_F(Asked, WithTheKeyAllNodesAreTold) {
  const auto answer = ask_endpoint("127.0.0.1", port_, {});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  ASSERT_EQ(answer->view.members.size(), static_cast<std::size_t>(kNodes));
  for (int rank = 0; rank < kNodes; ++rank)
    ASSERT_EQ(answer->view.members[static_cast<std::size_t>(rank)].rank, rank);
}

TEST_F(Asked, ToStopIsToldOnce) {
  const auto first = ask_endpoint("127.0.0.1", port_, {Question::What::kStop, ""});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_THAT(stop_text({*first}), HasSubstr("run 'run' is told to stop"));
  const auto second = ask_this_machine(run_id_, {Question::What::kStop, ""});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_THAT(stop_text(*second), HasSubstr("is running already"));
  EXPECT_EQ(stops_, 2);
}

TEST_F(Asked, WithoutTheKeyNobodyIsAnswered) {
  ::setenv("LOCKSTEP_RUN_KEY", "ffffffffffffffffffff0123456789abcdef", 1);
  const auto wrong = ask_endpoint("127.0.0.1", port_, {Question::What::kStop, ""});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(wrong.error().message, HasSubstr("has another key"));
  ::unsetenv("LOCKSTEP_RUN_KEY");
  ::setenv("LOCKSTEP_INSECURE", "1", 1);
  const auto none = ask_endpoint("127.0.0.1", port_, {Question::What::kStop, ""});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("wants a key"));
  ::unsetenv("LOCKSTEP_INSECURE");
  const test::TempFolder home;
  ::setenv("XDG_CONFIG_HOME", home.path().c_str(), 1);
  const auto no_key = ask_endpoint("127.0.0.1", port_, {Question::What::kStop, ""});
  ::unsetenv("XDG_CONFIG_HOME");
  ASSERT_FALSE(no_key.ok());
  EXPECT_THAT(no_key.error().message, HasSubstr("there is none here (--key-file)"));
  EXPECT_EQ(stops_, 0);
}

TEST_F(Asked, NobodyThereIsSaid) {
  const auto answer = ask_endpoint("127.0.0.1", 1, {});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("refused"));
  const auto here = ask_this_machine("no such run", {});
  ASSERT_FALSE(here.ok());
  EXPECT_EQ(here.error().kind, ErrorKind::kUnavailable);
}

// More than are answered at a time, silent ones, garbage: the next one is answered all the same.
TEST_F(Asked, AFloodIsBounded) {
  const auto names = control::names_on_this_machine(socket_names_of(run_id_));
  ASSERT_EQ(names.size(), 1U);
  std::vector<UniqueFd> flood;
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    auto socket = control::connect_by_name(names.front());
    if (!socket.ok()) continue;  // the queue is full
    std::string bytes = i % 3 == 0 ? "" : control::preface_of({control::kProtocol, 77, "1.2.3"});
    if (i % 3 == 2) {
      const std::string question = *star::encode(star::message::StatusQuery{});
      const auto size = static_cast<std::uint32_t>(question.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
      bytes += question;
    }
    for (auto more = random() % 40; i % 3 == 1 && more > 0; --more)
      bytes += static_cast<char>(random());
    (void)::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    flood.push_back(*std::move(socket));
  }
  EXPECT_GT(flood.size(), Answers::kMostAskers);
  const auto answer = ask_this_machine(run_id_, {});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->size(), 1U);
}

TEST(StatusText, OfALeader) {
  Answer answer = of_nodes(0, 2);
  nodes::View& view = answer.view;
  view.nodes = 12;
  view.max_restarts = 3;
  view.world = 8;
  view.store = nodes::Store{2, "fe80::1", 29'500, true};
  EXPECT_THAT(status_text(answer),
              AllOf(HasSubstr("run 'run': running, attempt 2 (restarts used: 1 of 3), 2 of 12 "
                              "nodes, 8 workers; the store is at [fe80::1]:29500\n"),
                    HasSubstr("leads\n"), HasSubstr("1.5 s\n")));
  view.state = nodes::View::State::kForming;
  view.waits_ns = 3'000'000'000, view.left_ns = 597'000'000'000;
  view.waits_for = "node 1 (10.0.0.2, silent for 1.5 s) and 3 more";
  for (int rank = 2; rank < 12; ++rank) view.members.push_back({rank});
  view.members[1].connected = false;
  EXPECT_THAT(status_text(answer),
              HasSubstr("waits for node 1 (10.0.0.2, silent for 1.5 s) and 3 more, since 3.0 s, "));
  EXPECT_THAT(status_text(answer), HasSubstr("597.0 s left"));
  const auto json = nlohmann::json::parse(status_json(answer));
  EXPECT_EQ(json["waits_for"].size(), 11U);
  EXPECT_EQ(json["left_s"], 597.0);
  EXPECT_EQ(json["members"].size(), 12U);
  EXPECT_FALSE(json["members"][2]["seen"].get<bool>());
}

TEST(StatusText, OfANode) {
  Answer answer = of_nodes(1, 1, false);
  nodes::View& view = answer.view;
  view.nodes = 3, view.rank = 1, view.world = 12;
  EXPECT_THAT(status_text(answer),
              HasSubstr("run 'run', node 1 of 3 on host0: running, attempt 2 (restarts used: 1 of "
                        "0), 4 of 12 workers; node 0 (10.0.0.1:29400) leads, heard 1.5 s ago\n"));
  EXPECT_TRUE(nlohmann::json::parse(status_json(answer))["waits_for"].empty());
  view.state = nodes::View::State::kWaiting;
  view.members.front().connected = false;
  view.fenced = true;
  view.waits_ns = 188'000'000'000, view.left_ns = 412'000'000'000;
  answer.trouble = "refused";
  EXPECT_THAT(status_text(answer),
              HasSubstr("waits for node 0 (10.0.0.1:29400), since 188.0 s, fenced, 412.0 s left "
                        "(--rdzv-conf join_timeout): refused\n"));
  EXPECT_EQ(nlohmann::json::parse(status_json(answer))["waits_for"], nlohmann::json::array({0}));
}

}  // namespace
}  // namespace lockstep::launcher
