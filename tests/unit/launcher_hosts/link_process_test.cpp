// One link's process under its agent's hands: what it is told, how it ends, and that it is told of.
#include "launcher/hosts/link_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/exec.h"
#include "base/port.h"
#include "base/processes.h"
#include "carrier/start.h"
#include "launcher/linked/shared_board.h"
#include "support/child.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using link::Stamp;
using testing::AllOf;
using testing::HasSubstr;

bool lives(pid_t pid) {
  const auto stat = stat_of(pid);
  return stat && stat->state != 'Z';
}

// An agent's loop with a link, of a board that has no plan.
class Agent {
 public:
  Agent()
      : board_(SharedBoard::make().value()),
        listener_(listen_for_links(control::Address::numeric("127.0.0.1", 0), 0, false).value()),
        loop_(Loop::open().value()),
        timers_(control::Timers::open(loop_).value()),
        link_(loop_, *timers_,
              {[this](const carrier::Closed& closed) { closed_.push_back(closed.round); },
               [](const carrier::Working&) {},
               [this](const carrier::Line& line) { lines_.push_back(line.text); },
               [this](const std::string& why) { gone_ = why; }}) {}

  LinkProcess::Plan plan() const {
    LinkProcess::Plan plan;
    plan.program = LOCKSTEP_LINK;
    plan.board = board_.fd();
    plan.listener = listener_.get();
    plan.self = {1, {0, 1}, 10};
    return plan;
  }
  LinkProcess& link() { return link_; }
  // Until it is true; false after 20 s.
  template <class Done>
  bool serve(Done done) {
    for (const Deadline end = Deadline::in(20s); !end.passed();) {
      if (done()) return true;
      loop_.run_once(Deadline::in(5ms));
      while (const auto event = next_child_event()) link_.event(*event);
    }
    return done();
  }
  bool obeys(std::uint64_t seq) {
    link_.obey({.round = {1, seq}}, {});
    return serve([&] { return !closed_.empty() && closed_.back() == Stamp{1, seq}; });
  }
  bool is_gone() {
    return serve([this] { return gone_.has_value(); });
  }
  std::optional<std::string> gone_;
  std::vector<std::string> lines_;

 private:
  SharedBoard board_;
  UniqueFd listener_;
  Loop loop_;
  std::unique_ptr<control::Timers> timers_;
  std::vector<Stamp> closed_;
  LinkProcess link_;
};

TEST(LinkProcess, ObeysBeforeThereIsAPlanAndEndsWithItsObject) {
  pid_t pid = -1;
  {
    Agent agent;
    agent.link().obey({.round = {1, 1}}, {});
    ASSERT_TRUE(agent.link().start(agent.plan()).ok());
    pid = agent.link().pid();
    EXPECT_TRUE(agent.obeys(2));
    EXPECT_TRUE(lives(pid));
  }
  EXPECT_FALSE(stat_of(pid)) << "it is not reaped";
}

TEST(LinkProcess, WhatIsTypedDoesNotEndIt) {
  Agent agent;
  ASSERT_TRUE(agent.link().start(agent.plan()).ok());
  ASSERT_TRUE(agent.obeys(1));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGTSTP, SIGPIPE})
    ::kill(agent.link().pid(), signal);
  EXPECT_TRUE(agent.obeys(2));
  EXPECT_FALSE(agent.gone_);
  EXPECT_NE(::getpgid(agent.link().pid()), ::getpgrp());
}

TEST(LinkProcess, KilledItIsToldAndMayBeStartedAgain) {
  Agent agent;
  ASSERT_TRUE(agent.link().start(agent.plan()).ok());
  ASSERT_TRUE(agent.obeys(1));
  ::kill(agent.link().pid(), SIGKILL);
  ASSERT_TRUE(agent.is_gone());
  EXPECT_THAT(*agent.gone_, HasSubstr("was ended by SIGKILL"));
  EXPECT_FALSE(agent.link().runs());
  agent.link().obey({.round = {1, 2}}, {});
  ASSERT_TRUE(agent.link().start(agent.plan()).ok());
  EXPECT_TRUE(agent.obeys(3));
}

TEST(LinkProcess, StoppedForTooLongItIsKilled) {
  Agent agent;
  auto plan = agent.plan();
  plan.stop_grace = 100ms;
  ASSERT_TRUE(agent.link().start(plan).ok());
  ASSERT_TRUE(agent.obeys(1));
  ::kill(agent.link().pid(), SIGSTOP);
  ASSERT_TRUE(agent.is_gone());
  EXPECT_THAT(*agent.gone_, HasSubstr("was stopped for 100 ms"));
}

TEST(LinkProcess, StoppedForAMomentItGoesOn) {
  Agent agent;
  auto plan = agent.plan();
  plan.stop_grace = 20s;
  ASSERT_TRUE(agent.link().start(plan).ok());
  ASSERT_TRUE(agent.obeys(1));
  ::kill(agent.link().pid(), SIGSTOP);
  agent.serve([&] { return stat_of(agent.link().pid())->state == 'T'; });
  for (std::uint64_t seq = 2; seq < 5'000; ++seq) agent.link().obey({.round = {1, seq}}, {});
  ::kill(agent.link().pid(), SIGCONT);
  EXPECT_TRUE(agent.obeys(5'000));
  EXPECT_FALSE(agent.gone_);
}

TEST(LinkProcess, WhoDoesNotAnswerIsKilled) {
  Agent agent;
  auto plan = agent.plan();
  plan.answer = 100ms;
  plan.stop_grace = 20s;
  ASSERT_TRUE(agent.link().start(plan).ok());
  ::kill(agent.link().pid(), SIGSTOP);
  agent.link().obey({.round = {1, 1}}, {});
  ASSERT_TRUE(agent.is_gone());
  EXPECT_THAT(*agent.gone_, HasSubstr("has not answered for 100 ms"));
}

TEST(LinkProcess, WhatCannotBeStartedIsTold) {
  Agent agent;
  auto plan = agent.plan();
  plan.program = "/nowhere/lockstep-link";
  const Status started = agent.link().start(plan);
  EXPECT_EQ(started.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(started.error().message,
              AllOf(HasSubstr("/nowhere/lockstep-link"), HasSubstr("from the same build")));
  EXPECT_FALSE(agent.link().runs());
  plan = agent.plan();
  plan.board = plan.listener;
  ASSERT_TRUE(agent.link().start(plan).ok());
  ASSERT_TRUE(agent.is_gone());
  EXPECT_THAT(*agent.gone_, HasSubstr("has ended with exit code 2"));
}

// The parent-death signal, and where there is none the socket's end.
TEST(LinkProcess, EndsWithItsAgent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t agent = ::fork();
  if (agent == 0) {
    Agent one;
    const bool started = one.link().start(one.plan()).ok() && one.obeys(1);
    const pid_t link = started ? one.link().pid() : -1;
    [[maybe_unused]] const auto written = ::write(ends[1], &link, sizeof link);
    ::pause();
    ::_exit(0);
  }
  pid_t link = -1;
  ASSERT_EQ(::read(ends[0], &link, sizeof link), static_cast<ssize_t>(sizeof link));
  ::close(ends[0]), ::close(ends[1]);
  ASSERT_GT(link, 0);
  EXPECT_TRUE(lives(link));
  ::kill(agent, SIGKILL);
  EXPECT_TRUE(test::until([&] { return !lives(link); }));
  EXPECT_EQ(::waitpid(agent, nullptr, 0), agent);
  EXPECT_EQ(::waitpid(link, nullptr, 0), link);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(LinkProcess, APortThatIsTakenIsLeft) {
  const auto here = control::Address::numeric("127.0.0.1", 0);
  const auto first = listen_for_links(here, 0, false);
  const int port = port_of(first->get());
  EXPECT_EQ(listen_for_links(here, port, false).error().kind, ErrorKind::kUnavailable);
  const auto other = listen_for_links(here, port, true);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(port_of(other->get()), port);
}

// By hand: a line that says what is wrong, and its exit code.
TEST(LinkProgram, RefusesWhatItCannotBe) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const auto board = SharedBoard::make();
  const auto listener = listen_for_links(control::Address::numeric("127.0.0.1", 0), 0, false);
  for (const int fd : {board->fd(), listener->get()}) ::fcntl(fd, F_SETFD, 0);
  const carrier::Start good{board->fd(), ends[1], listener->get(), {1, {0, 1}, 10}};
  const auto ends_with = [](std::vector<std::string> words, const std::string& said) {
    words.insert(words.begin(), LOCKSTEP_LINK);
    const test::Outcome outcome = test::run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(said));
  };
  const auto with = [&](auto change) {
    carrier::Start start = good;
    change(start);
    return carrier::words_of(start, LOCKSTEP_VERSION);
  };
  ends_with({}, "no '--for VERSION' comes first");
  ends_with({"--for", "0.0.0"}, "'lockstep' is version 0.0.0");
  ends_with({"--for", LOCKSTEP_VERSION, "--bored", "3"}, "'--board NUMBER' is expected, there is");
  ends_with({"--for", LOCKSTEP_VERSION, "--board", "x"}, "'--board' takes a number from 0 on");
  ends_with(with([](carrier::Start& s) { s.board = 0; }), "--board 0 is no descriptor");
  ends_with(with([](carrier::Start& s) { s.agent = 999; }), "--agent 999 is no descriptor");
  ends_with(with([&](carrier::Start& s) { s.agent = board->fd(); }), "is no stream socket");
  ends_with(with([&](carrier::Start& s) { s.listener = ends[1]; }),
            "is no TCP socket that listens");
  ends_with(with([&](carrier::Start& s) { s.board = ends[1]; }), "is no board of Lockstep's");
  auto more = with([](carrier::Start&) {});
  more.push_back("more");
  ends_with(more, "'more' is one word too many");
  // Its agent's end of the socket is closed, and there is no other copy of it.
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  std::vector<std::string> words = carrier::words_of(good, LOCKSTEP_VERSION);
  words.insert(words.begin(), LOCKSTEP_LINK);
  test::Child link(words);
  ::close(ends[0]);
  EXPECT_EQ(link.wait().code, 0);
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep::launcher
