// Console and teed logs: whatever readers and workers do, the loop goes round.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <string_view>

#include "launcher/output/console.h"
#include "launcher/output/host_name.h"
#include "launcher/output/logs.h"
#include "standard_streams.h"
#include "support/child.h"

namespace {
// What happens between a look and what follows from it.
std::function<void()> after_poll;
}  // namespace

extern "C" int poll(pollfd* entries, nfds_t count, int timeout_ms) {  // in libc's place
  const timespec time{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  const int ready = ::ppoll(entries, count, timeout_ms < 0 ? nullptr : &time, nullptr);
  if (after_poll) after_poll();
  return ready;
}

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

std::ptrdiff_t lines_in(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + " of many, many lines\n";
  return text;
}

// Found without a write of ours: workers may be the only ones who print.
TEST(Console, AReaderThatHasGoneIsToldOnce) {
  for (const auto make : {make_pipe, make_socket}) {
    const Alarm alarm(120);
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    Ends out = make();
    const Ends err = make_pipe();
    const StandardStream output(out.write.get(), STDOUT_FILENO), error(err.write.get());
    Console console(*loop);
    console.look();
    EXPECT_EQ(read_all(err.read), "");
    EXPECT_TRUE(console.has_room(Console::kOut));
    out.read.reset();
    for (int i = 0; i < 3; ++i) console.look();
    ::signal(SIGPIPE, SIG_IGN);
    console.write(Console::kOut, "a line\n");
    EXPECT_EQ(
        read_all(err.read),
        "lockstep: warning: nobody reads standard output any more; the run goes on; lines are "
        "missing there\n");
  }
}

TEST(Console, KeepsWhatNobodyReadsAndWritesItOnceThereIsRoom) {
  for (const auto make : {make_pipe, make_socket, make_terminal}) {
    const Alarm alarm(120);
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    const Ends ends = make();
    const StandardStream redirected(ends.write.get());
    Console console(*loop);
    const std::string text = numbered_lines(20'000);
    console.write(Console::kErr, text);
    EXPECT_FALSE(console.flush());
    EXPECT_EQ(::fcntl(ends.write.get(), F_GETFL) & O_NONBLOCK, 0);  // it is others' too
    std::string seen;
    const Deadline deadline = Deadline::in(10s);
    while (seen.size() < text.size() && !deadline.passed()) {
      loop->run_once(Deadline::in(console.waits_unwatched() ? 1ms : 20ms));
      if (console.waits_unwatched()) console.flush();
      std::string more = read_all(ends.read);
      std::erase(more, '\r');  // a terminal's
      seen += more;
    }
    EXPECT_TRUE(seen == text) << seen.size() << " bytes of " << text.size();
    EXPECT_TRUE(console.flush());
  }
}

// As with 2>&1: a line that is half written when the pipe is full is ended before anything else.
TEST(Console, LongLinesOfBothStreamsStayWholeInOnePipe) {
  for (const auto make : {make_pipe, make_socket}) {
    const Alarm alarm(120);
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    const Ends ends = make();
    const StandardStream out(ends.write.get(), STDOUT_FILENO), err(ends.write.get());
    Console console(*loop);
    std::string seen;
    const auto take_some = [&] {
      std::string some(8192, '\0');
      some.resize(static_cast<std::size_t>(::read(ends.read.get(), some.data(), some.size())));
      seen += some;
    };
    for (int i = 0; i < 20; ++i) {
      console.write(Console::kOut, std::string(30'000, 'o') + "\n");
      take_some();
      console.write(Console::kErr, std::string(50, 'e') + "\n");
    }
    while (!console.flush()) take_some();
    seen += read_all(ends.read);
    std::istringstream lines(seen);
    int whole = 0;
    for (std::string line; std::getline(lines, line);)
      whole += line == std::string(30'000, 'o') || line == std::string(50, 'e') ? 1 : 0;
    EXPECT_EQ(whole, 40);
  }
}

// A worker is faster than whoever has just seen that there is room.
TEST(Console, SharesAPipeWithAWorkerThatFillsIt) {
  const Alarm alarm(120);
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  const Ends ends = make_pipe();
  const StandardStream redirected(ends.write.get());
  Console console(*loop);
  const UniqueFd worker(::open(("/proc/self/fd/" + std::to_string(ends.write.get())).c_str(),
                               O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string page(4096, 'w');
  after_poll = [&] {
    while (::write(worker.get(), page.data(), page.size()) > 0) {
    }
  };
  const std::string lines = numbered_lines(1000);
  for (int i = 0; i < 100; ++i) {
    console.write(Console::kErr, lines);
    loop->run_once(Deadline::in(0ms));
    std::string taken(page.size(), '\0');
    EXPECT_GT(::read(ends.read.get(), taken.data(), taken.size()), 0);
  }
  after_poll = nullptr;
}

class Tees : public testing::Test {
 protected:
  Tees() : alarm_(120), loop_(Loop::open().value()), ends_(make_pipe()), to_(ends_.write.get()) {
    options_.log_dir = folder_ / "logs";
    options_.tee.all = kStderr;
  }
  Logs open() { return Logs::open(options_, loop_, console_).value(); }
  void go_round(int rounds = 20) {
    for (int i = 0; i < rounds; ++i) loop_.run_once(Deadline::in(1ms));
  }
  std::string shown() { return read_all(ends_.read); }
  // Until the files have what there is.
  static void drain(Logs& logs) {
    logs.drain([] { return true; }, [] { return false; });
  }

  Alarm alarm_;
  test::TempFolder folder_;
  LaunchOptions options_;
  Loop loop_;
  Ends ends_;
  StandardStream to_;
  Console console_{loop_};
};

void put(const UniqueFd& fd, const std::string& text) {
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST_F(Tees, OfSeveralNodesAreToldApart) {
  options_.nodes.nnodes = 2;
  options_.run_id = "job";
  Logs logs = open();
  auto outputs = logs.open_worker(0, 1, 5);
  ASSERT_TRUE(outputs.ok());
  put(outputs->err, "x\n");
  go_round(2);
  EXPECT_EQ(shown(), "[default5]:x\n");
  EXPECT_EQ(logs.folder().find(folder_ / "logs/job_" + host_name() + "_"), 0U) << logs.folder();
  EXPECT_EQ(outputs->folder, logs.folder() + "/attempt_0/1");
}

TEST_F(Tees, LinesEndAtReturnsToo) {
  Logs logs = open();
  auto outputs = logs.open_worker(0, 3, 3);
  ASSERT_TRUE(outputs.ok());
  std::string whole;
  for (const std::string text :
       {"one\ntwo\r\nthr", "ee\r", "\nfour\n\n", "\r 10%\r 20%", "\r 30%\n", "rest"}) {
    put(outputs->err, text);
    go_round(2);
    whole += text;
  }
  const std::string p = "[default3]:";
  EXPECT_EQ(shown(), p + "one\n" + p + "two\n" + p + "three\n" + p + "four\n" + p + "\n" + p +
                         " 10%\n" + p + " 20%\n" + p + " 30%\n");
  outputs->err.reset();
  go_round(2);
  EXPECT_EQ(shown(), p + "rest\n");
  drain(logs);
  EXPECT_EQ(test::read_text(outputs->folder + "/stderr.log"), whole);
}

TEST_F(Tees, ALongLineComesWholeAtItsEnd) {
  Logs logs = open();
  auto outputs = logs.open_worker(0, 0, 0);
  ASSERT_TRUE(outputs.ok());
  std::string seen;
  const Deadline deadline = Deadline::in(60s);
  const auto look = [&] {
    go_round(3);
    seen += shown();
  };
  // The pipe may be full: it is not read while the file's thread has too much to write.
  ::fcntl(outputs->err.get(), F_SETFL, O_NONBLOCK);
  const std::string text(2 << 20, 'x');
  for (std::size_t written = 0; written < text.size() && !deadline.passed(); look()) {
    const std::size_t piece = std::min(std::size_t{32} << 10, text.size() - written);
    const ssize_t n = ::write(outputs->err.get(), text.data() + written, piece);
    if (n > 0) written += static_cast<std::size_t>(n);
  }
  EXPECT_EQ(seen, "");
  for (bool ended = false; !seen.ends_with('\n') && !deadline.passed(); look())
    ended = ended || ::write(outputs->err.get(), "\n", 1) == 1;
  EXPECT_TRUE(seen.starts_with("[default0]:x")) << seen.substr(0, 40);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), '\n'), 1);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 'x'), 2 << 20);
}

TEST_F(Tees, AConsoleThatIsFullHoldsTheWorkersBackAndNotTheLoop) {
  constexpr int kWorkers = 32;
  Logs logs = open();
  std::vector<Outputs> outputs;
  for (int i = 0; i < kWorkers; ++i) {
    outputs.push_back(logs.open_worker(0, i, i).value());
    ::fcntl(outputs.back().err.get(), F_SETFL, O_NONBLOCK);
  }
  const std::string text = numbered_lines(1000);
  std::ptrdiff_t written = 0;  // lines
  const auto fill = [&] {
    for (const Outputs& o : outputs)
      for (ssize_t n; (n = ::write(o.err.get(), text.data(), text.size())) > 0;)
        written += lines_in({text.data(), static_cast<std::size_t>(n)});
  };
  while (!console_.full()) {
    fill();
    go_round(1);
  }
  fill();
  Ends other = make_pipe();
  int rounds = 0;
  ASSERT_TRUE(loop_.add(other.read.get(), [&] { ++rounds; }).ok());
  put(other.write, "x");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) loop_.run_once(Deadline::in(1s));
  EXPECT_EQ(rounds, 10);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);  // none of them waited
  loop_.remove(other.read.get());
  // All of it comes once somebody reads.
  std::ptrdiff_t seen = 0, kept = 0;
  const Deadline deadline = Deadline::in(20s);
  for (int quiet = 0; quiet < 5 && !deadline.passed();) {
    go_round(1);
    logs.go_on();
    const std::string more = shown();
    quiet = more.empty() ? quiet + 1 : 0;
    seen += lines_in(more);
  }
  drain(logs);
  for (const Outputs& o : outputs) kept += lines_in(test::read_text(o.folder + "/stderr.log"));
  EXPECT_EQ(seen, written);
  EXPECT_EQ(kept, written);
}

}  // namespace
}  // namespace lockstep::launcher
