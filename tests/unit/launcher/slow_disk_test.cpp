// A disk that stands still, under the console or a teed log: the loop goes round, and nothing is
// lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "launcher/output/console.h"
#include "launcher/output/logs.h"
#include "standard_streams.h"
#include "support/child.h"

namespace {

std::atomic<bool> stands_still;

bool is_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t size) {  // in libc's place
  while (stands_still && is_file(fd)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ::syscall(SYS_write, fd, data, size);
}

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

class SlowDisk : public testing::Test {
 protected:
  ~SlowDisk() override { stands_still = false; }
  UniqueFd open(const std::string& name) {
    return UniqueFd(
        ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  std::string text(const std::string& name) { return test::read_text(folder_ / name); }

  Alarm alarm_{120};
  test::TempFolder folder_;
  Loop loop_ = Loop::open().value();
};

const auto kNever = [] { return false; };

TEST_F(SlowDisk, OfTheConsoleDelaysItsLinesAlone) {
  const UniqueFd out = open("out"), err = open("err");
  const StandardStream output(out.get(), STDOUT_FILENO), error(err.get(), STDERR_FILENO);
  Console console(loop_);
  stands_still = true;
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    console.write(Console::kOut, line);
    all += line;
  }
  EXPECT_EQ(text("out"), "");
  EXPECT_FALSE(console.flush());
  EXPECT_FALSE(console.waits_unwatched());  // the loop is told when the disk has taken something
  loop_.run_once(Deadline::in(1ms));
  // Nobody gives up on it, but whoever stops the run.
  int asked = 0;
  EXPECT_TRUE(console.finish(0ms, [&] { return ++asked == 3; }).any());
  console.write(Console::kOut, "after\n");
  std::thread later([] {
    std::this_thread::sleep_for(50ms);
    stands_still = false;
  });
  EXPECT_FALSE(console.finish(0ms, kNever).any());
  later.join();
  EXPECT_EQ(text("out"), all + "after\n");
}

// Whoever waits for a rank 0 that was started by hand reads its file then.
TEST_F(SlowDisk, OfTheConsoleIsWaitedForBeforeAProcessEnds) {
  const UniqueFd out = open("out"), err = open("err");
  const StandardStream output(out.get(), STDOUT_FILENO), error(err.get(), STDERR_FILENO);
  Console console(loop_);
  stands_still = true;
  console.write(Console::kOut, "first\n");
  console.write(Console::kOut, "last\n");  // after what the disk is busy with
  std::thread later([] {
    std::this_thread::sleep_for(50ms);
    stands_still = false;
  });
  console.settle();
  EXPECT_EQ(text("out"), "first\nlast\n");
  later.join();
  stands_still = true;
  console.write(Console::kOut, "late\n");
  console.settle();  // but not for ever
  EXPECT_EQ(text("out"), "first\nlast\n");
  stands_still = false;
}

// A launcher that cannot start, or whose reader took nothing, says so in its very last line.
TEST_F(SlowDisk, OfTheConsoleGetsWhatIsSaidLast) {
  const UniqueFd out = open("out"), err = open("err");
  const StandardStream output(out.get(), STDOUT_FILENO), error(err.get(), STDERR_FILENO);
  {
    Console console(loop_);
    console.write(Console::kErr, "first\n");
    EXPECT_FALSE(console.finish(1s, kNever).any());
    console.write(Console::kErr, "what is missing\n");
    console.write(Console::kErr, "why\n");  // after what the disk is busy with
  }
  EXPECT_EQ(text("err"), "first\nwhat is missing\nwhy\n");
}

TEST_F(SlowDisk, BothStreamsInOneFileKeepTheirOrder) {
  const UniqueFd both = open("both");
  const StandardStream output(both.get(), STDOUT_FILENO), error(both.get(), STDERR_FILENO);
  Console console(loop_);
  stands_still = true;
  std::string all;
  for (int i = 0; i < 20; ++i) {
    const std::string line = std::to_string(i) + "\n";
    console.write(i % 2 == 0 ? Console::kOut : Console::kErr, line);
    all += line;
  }
  stands_still = false;
  EXPECT_FALSE(console.finish(1s, kNever).any());
  EXPECT_EQ(text("both"), all);
}

TEST_F(SlowDisk, OfALogHoldsItsWorkerBackAfterOneMebibyte) {
  const Ends shown = make_pipe();
  const StandardStream error(shown.write.get(), STDERR_FILENO);
  Console console(loop_);
  LaunchOptions options;
  options.log_dir = folder_ / "logs";
  options.tee.all = kStderr;
  Logs logs = Logs::open(options, loop_, console).value();
  Outputs outputs = logs.open_worker(0, 0, 0).value();
  ::fcntl(outputs.err.get(), F_SETFL, O_NONBLOCK);
  stands_still = true;
  const std::string line = std::string(99, 'x') + "\n";
  std::size_t written = 0;
  // Until neither the pipe nor the launcher takes any more.
  for (int quiet = 0; quiet < 20; ++quiet) {
    while (::write(outputs.err.get(), line.data(), line.size()) == std::ssize(line))
      written += line.size(), quiet = 0;
    loop_.run_once(Deadline::in(1ms));
    (void)read_all(shown.read);
    logs.go_on();
  }
  EXPECT_GT(written, std::size_t{1} << 20);
  EXPECT_LT(written, std::size_t{3} << 20);
  EXPECT_TRUE(logs.waits_for_disk(0));
  EXPECT_FALSE(logs.waits_for_disk(1));
  stands_still = false;
  logs.drain([&] { return (void)read_all(shown.read), true; }, kNever);
  EXPECT_FALSE(logs.waits_for_disk(0));
  EXPECT_EQ(test::read_text(outputs.folder + "/stderr.log").size(), written);
}

}  // namespace
}  // namespace lockstep::launcher
