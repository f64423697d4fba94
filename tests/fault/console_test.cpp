// Readers of the console that are slow, pause or go away: no line is lost as long as they read, no
// worker dies of their silence, and what they never take is told.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>

#include <optional>

#include "base/unique_fd.h"
#include "fault/launcher_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A launcher whose standard output is a pipe that the test reads.
class ConsoleReader : public ToyRun {
 protected:
  void start(const Words& words, const std::string& redirection = "") {
    const std::string fifo = folder_ / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    reader_.reset(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    Words shell{"/bin/sh", "-c", "exec \"$@\" >" + fifo + redirection, "sh"};
    shell.insert(shell.end(), words.begin(), words.end());
    launcher_.emplace(shell);
  }
  void start_plain(const Words& options, const std::string& script) {
    Words words{LOCKSTEP_PROGRAM, "run", "--log-dir", folder_ / "logs"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"/bin/sh", "-c", script});
    start(words);
  }
  // Up to `most` bytes; empty: nobody writes any more.
  std::string take(std::size_t most) {
    pollfd entry{reader_.get(), POLLIN, 0};
    ::poll(&entry, 1, 20'000);
    std::string text(most, '\0');
    const ssize_t n = ::read(reader_.get(), text.data(), text.size());
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return text;
  }
  std::string take_all() {
    std::string text, more;
    while (!(more = take(65536)).empty()) text += more;
    return text;
  }

  UniqueFd reader_;
  std::optional<Child> launcher_;
};

TEST_F(ConsoleReader, ASlowOneGetsEveryLine) {
  start_plain({"--tee", "1"}, "seq 1 70000");
  std::string text, more;
  while (!(more = take(8192)).empty()) {  // for 7 s
    text += more;
    std::this_thread::sleep_for(55ms);
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 70'000);
  EXPECT_THAT(text, HasSubstr("[default0]:70000\n"));
  EXPECT_EQ(launcher_->wait().code, 0);
}

TEST_F(ConsoleReader, WhatNobodyReadsIsToldAndTheExitCodeIsTheRuns) {
  start_plain({"--tee", "1", "--shutdown-timeout", "0"}, "seq 1 70000; exit 3");
  const Outcome outcome = launcher_->wait(20s);
  EXPECT_EQ(outcome.code, 1);  // torchrun's for any failure
  EXPECT_THAT(outcome.err, HasSubstr("of the output were not read"));
  EXPECT_THAT(outcome.err, HasSubstr("exitcode  : 3"));
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "logs")) {
    files += entry.path().filename() == "console_incomplete.txt" ? 1 : 0;
    if (entry.path().filename() != "stdout.log") continue;
    EXPECT_EQ(last_line(read_text(entry.path())), "70000");
  }
  EXPECT_EQ(files, 1);
}

TEST_F(ConsoleReader, ASignalEndsTheWaitForIt) {
  start_plain({"--tee", "1"}, "seq 1 70000; touch " + folder_.path() + "/done");
  ASSERT_TRUE(until([&] { return std::filesystem::exists(folder_ / "done"); }));
  const std::string id = std::to_string(launcher_->pid());
  ASSERT_TRUE(
      until([&] { return read_text("/proc/" + id + "/task/" + id + "/children").empty(); }));
  std::this_thread::sleep_for(500ms);
  const auto begin = std::chrono::steady_clock::now();
  launcher_->send(SIGTERM);
  const Outcome outcome = launcher_->wait(20s);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("of the output were not read"));
}

// Longer than a worker may stand still; the workers write into the pipe itself, or into tees.
TEST_F(ConsoleReader, AWorkerThatWaitsForAPausedOneIsNotHung) {
  const std::string state = expected("300");
  for (const Words& options : {Words{}, Words{"--tee", "1", "--log-dir", folder_ / "logs"}}) {
    std::filesystem::remove(folder_ / "fifo");
    const std::string name = options.empty() ? "inherited" : "teed";
    Words launcher{"--nproc-per-node", "3"};
    launcher.insert(launcher.end(), options.begin(), options.end());
    start(command(launcher, {"--txns", "300", "--print", "4000"}, name));
    ASSERT_TRUE(
        until([&] { return launcher_->err().find("waits for the reader") != std::string::npos; }));
    std::this_thread::sleep_for(1s);
    const std::string text = take_all();
    const Outcome outcome = launcher_->wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(incidents(name), 0) << outcome.err;
    EXPECT_THAT(text, HasSubstr(state));
    EXPECT_THAT(outcome.err,
                HasSubstr("the run waits for the reader of its standard output, process " +
                          std::to_string(::getpid()) + " (console_test)"));
  }
}

// `lockstep run ... | head -1`: workers write into the pipe themselves. By either start method.
TEST_F(ConsoleReader, OneThatGoesAwayEndsNobody) {
  for (const std::string method : {"fork", "exec"}) {
    std::filesystem::remove(folder_ / "fifo");
    start(command({"--nproc-per-node", "3", "--start-method", method},
                  {"--txns", "300", "--print", "4000"}, method));
    EXPECT_FALSE(take(1).empty());
    reader_.reset();
    const Outcome outcome = launcher_->wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(incidents(method), 0) << outcome.err;
    const std::string told = "nobody reads standard output any more";
    EXPECT_THAT(outcome.err, HasSubstr(told));
    EXPECT_EQ(outcome.err.find(told), outcome.err.rfind(told));
  }
}

// Of a program that is the only one to print; it keeps the system's default, to die of SIGPIPE.
TEST_F(ConsoleReader, OneThatGoesAwayIsToldOfAPlainProgramToo) {
  start_plain({}, "echo begun; sleep 1; kill -PIPE $$; echo survived >&2");
  EXPECT_FALSE(take(1).empty());
  reader_.reset();
  const Outcome outcome = launcher_->wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("nobody reads standard output any more"));
  EXPECT_THAT(outcome.err, HasSubstr("SIGPIPE"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("survived")));
}

// Also where the stack has room for little: 64 KiB.
TEST_F(ConsoleReader, LogsNeedNoLargeStack) {
  const Outcome outcome =
      run({"/bin/sh", "-c", "ulimit -s 64; exec \"$@\"", "sh", LOCKSTEP_PROGRAM, "run", "--tee",
           "3", "--log-dir", folder_ / "logs", "/bin/sh", "-c", "echo one; echo two >&2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "[default0]:one\n");
  EXPECT_THAT(outcome.err, EndsWith("(--max-restarts)\n[default0]:two\n"));
}

// libtorch needs more, and the SIGSEGV of its workers names no cause.
TEST_F(ConsoleReader, ASmallStackIsNamed) {
  for (const std::string kilobytes : {"64", "1024"}) {
    Words words{"/bin/sh", "-c", "ulimit -s " + kilobytes + "; exec \"$@\"", "sh"};
    for (const std::string& word : command({"--nproc-per-node", "2"}, {"--txns", "6"}, kilobytes))
      words.push_back(word);
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (kilobytes == "64")
      EXPECT_THAT(outcome.err, HasSubstr("warning: the stack is limited to 64 KiB (ulimit -s)"));
    else
      EXPECT_THAT(outcome.err, Not(HasSubstr("warning")));
  }
}

}  // namespace
}  // namespace lockstep::test
