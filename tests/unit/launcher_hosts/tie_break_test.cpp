// Lock files: who makes one has it; and asking for one beside the loop.
#include "launcher/hosts/tie_break.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/temporary.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::uint64_t kSet = 0xabc;

class LockDirectoryTest : public testing::Test {
 protected:
  LockDirectoryTest() : folder(*make_temporary_folder("lockstep-test-")) {}
  ~LockDirectoryTest() override { fs::remove_all(folder); }

  LockDirectory open(std::uint64_t self) {
    LockDirectory directory(folder, self, "somebody");
    const Status entered = directory.enter();
    EXPECT_TRUE(entered.ok()) << entered.error().message;
    return directory;
  }
  bool has(LockDirectory& directory, std::uint64_t set = kSet) {
    const auto answer = directory.claim(set);
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() && *answer;
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }
  std::string in(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name) const { std::ofstream(in(name)) << "somebody\n"; }

  std::string folder;
};

TEST_F(LockDirectoryTest, WhoMakesItHasItForGoodAndOfEachSetAnew) {
  LockDirectory one = open(1), two = open(2);
  EXPECT_TRUE(has(two));
  EXPECT_FALSE(has(one));
  EXPECT_TRUE(has(two)) << "asked again";
  EXPECT_FALSE(has(one));
  EXPECT_TRUE(has(one, kSet + 1));
  EXPECT_FALSE(has(two, kSet + 1));
}

TEST_F(LockDirectoryTest, OfTwoAtOnceOne) {
  LockDirectory one = open(1), two = open(2);
  for (std::uint64_t set = 1; set <= 50; ++set) {
    std::barrier start(2);
    bool other = false;
    std::thread thread([&] {
      start.arrive_and_wait();
      other = has(two, set);
    });
    start.arrive_and_wait();
    const bool self = has(one, set);
    thread.join();
    ASSERT_NE(self, other) << set;
  }
}

// As over NFS, where the answer to a call that was made may be lost: link(2) says EEXIST.
TEST_F(LockDirectoryTest, WhoseLinkWasMadeWithoutAnAnswerHasIt) {
  LockDirectory one = open(1), two = open(2);
  write("lockstep-set-0000000000000abc-0000000000000002");
  fs::create_hard_link(in("lockstep-set-0000000000000abc-0000000000000002"),
                       in("lockstep-set-0000000000000abc"));
  EXPECT_FALSE(has(one));
  EXPECT_TRUE(has(two));
}

// Of a backup by hard links, say.
TEST_F(LockDirectoryTest, MoreNamesOfAFileMakeNoLock) {
  LockDirectory one = open(1), two = open(2);
  EXPECT_TRUE(has(two));
  EXPECT_FALSE(has(one));
  fs::create_hard_link(in("lockstep-set-0000000000000abc-0000000000000001"), in("copy"));
  EXPECT_FALSE(has(one));
}

TEST_F(LockDirectoryTest, WhoDiedWithItStopsTheOther) {
  {
    LockDirectory dead = open(1);
    EXPECT_TRUE(has(dead));
  }
  LockDirectory two = open(2);
  EXPECT_FALSE(has(two));
}

TEST_F(LockDirectoryTest, NothingOfWhoLeavesIsLeftButTheLockFile) {
  LockDirectory one = open(1), two = open(2);
  EXPECT_TRUE(has(two));
  EXPECT_FALSE(has(one));
  EXPECT_EQ(names().size(), 5U);
  one.leave();
  two.leave();
  EXPECT_THAT(names(), testing::ElementsAre("lockstep-set-0000000000000abc"));
  two.remove(kSet);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(LockDirectoryTest, WhoIsElsewhereIsNotSeen) {
  LockDirectory one = open(1);
  EXPECT_EQ(*one.sees(2), false);
  LockDirectory two = open(2);
  EXPECT_EQ(*one.sees(2), true);
  EXPECT_EQ(*two.sees(1), true);
}

TEST_F(LockDirectoryTest, WhatIsNotThereAnyMoreIsNoAnswer) {
  LockDirectory one = open(1);
  const std::string aside = folder + "-aside";
  fs::rename(folder, aside);
  EXPECT_THAT(one.claim(kSet).error().message, HasSubstr("missing"));
  fs::create_directory(folder);  // where a server's directory was mounted, say
  EXPECT_THAT(one.claim(kSet).error().message, HasSubstr("is not the directory any more"));
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove(folder);
  fs::rename(aside, folder);
  EXPECT_TRUE(has(one));
}

TEST_F(LockDirectoryTest, WhatIsOfNoUseIsRefused) {
  const auto refusal = [](const std::string& path) {
    LockDirectory directory(path, 1, "somebody");
    const Status entered = directory.enter();
    EXPECT_FALSE(entered.ok()) << path;
    if (entered.ok()) return std::string();
    EXPECT_EQ(entered.error().kind, ErrorKind::kUsage);
    return entered.error().message;
  };
  write("file");
  EXPECT_THAT(refusal(in("none")), AllOf(HasSubstr("none'"), HasSubstr("No such file")));
  EXPECT_THAT(refusal(in("file")), HasSubstr("is no directory"));
  EXPECT_THAT(refusal("/proc/self"), HasSubstr("/proc/self"));
}

class TieBreakTest : public LockDirectoryTest {
 protected:
  // A launcher with a lock directory of its own sight.
  struct Launcher {
    explicit Launcher(Loop& loop, control::Timers& timers)
        : tie_break({loop, timers, [this](auto of, bool is) { set = of, has = is; },
                     [this](const Error& error) { unfit = error.message; }}) {}
    std::uint64_t set = 0;
    bool has = false;
    std::string unfit;
    TieBreak tie_break;
  };
  void run(const std::function<bool()>& until, std::chrono::milliseconds time = 10s) {
    const Deadline deadline = Deadline::in(time);
    while (!until() && !deadline.passed()) loop.run_once(Deadline::in(10ms));
  }
  std::unique_ptr<Launcher> enter(std::uint64_t self) {
    auto launcher = std::make_unique<Launcher>(loop, *timers);
    const Status opened = launcher->tie_break.open(LockDirectory(folder, self, "somebody"));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return launcher;
  }

  Loop loop = *Loop::open();
  std::unique_ptr<control::Timers> timers = *control::Timers::open(loop);
};

TEST_F(TieBreakTest, OneHasItTheOtherIsDenied) {
  const auto one = enter(1), two = enter(2);
  one->tie_break.want(kSet, "node 1");
  two->tie_break.want(kSet, "node 0");
  EXPECT_TRUE(one->tie_break.waits());
  run([&] { return one->set != 0 && two->set != 0; });
  EXPECT_EQ(one->set, kSet);
  EXPECT_NE(one->has, two->has);
  EXPECT_FALSE(one->tie_break.waits());
  one->tie_break.leave(kSet);
  two->tie_break.leave({});
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(TieBreakTest, OtherDirectoriesAreTold) {
  const auto one = enter(1), two = enter(2);
  one->tie_break.compare(2, "node 1");
  one->tie_break.want(kSet, "node 1");  // behind it
  run([&] { return one->set != 0; });
  EXPECT_EQ(one->unfit, "");
  two->tie_break.compare(3, "node 2");
  run([&] { return !two->unfit.empty(); });
  EXPECT_THAT(two->unfit, AllOf(HasSubstr("--tie-break"), HasSubstr("node 2"), HasSubstr(folder)));
}

// And told; and asked again.
TEST_F(TieBreakTest, WhatCannotBeAskedIsWaitedFor) {
  const auto one = enter(1);
  const std::string aside = folder + "-aside";
  fs::rename(folder, aside);
  std::string log;
  {
    const LogSink sink([&](std::string_view line) { log += line; });
    one->tie_break.want(kSet, "node 1");
    run([&] { return log.find("missing") != log.npos; });
  }
  EXPECT_EQ(one->set, 0U);
  EXPECT_TRUE(one->tie_break.waits());
  EXPECT_THAT(log, AllOf(HasSubstr("this node waits for the lock file"), HasSubstr("missing")));
  fs::rename(aside, folder);
  run([&] { return one->set != 0; });
  EXPECT_TRUE(one->has);
}

TEST_F(TieBreakTest, WhoIsHeardAgainIsNotAskedAbout) {
  const auto one = enter(1);
  const std::string aside = folder + "-aside";
  fs::rename(folder, aside);
  one->tie_break.want(kSet, "node 1");
  {
    std::string log;
    const LogSink sink([&](std::string_view line) { log += line; });
    run([&] { return log.find("missing") != log.npos; });
  }
  one->tie_break.want({}, "");
  EXPECT_FALSE(one->tie_break.waits());
  fs::rename(aside, folder);
  run([&] { return one->set != 0; }, 1500ms);
  EXPECT_EQ(one->set, 0U);
}

// A server that is gone: a pipe that nobody writes to stands for it.
TEST_F(TieBreakTest, WhoHangsIsNotWaitedForAtTheEnd) {
  const std::string claim = in("lockstep-set-0000000000000abc-0000000000000001");
  auto one = enter(1);
  ASSERT_EQ(::mkfifo(claim.c_str(), 0600), 0);
  one->tie_break.want(kSet, "node 1");
  run([&] { return one->set != 0; }, 100ms);
  EXPECT_TRUE(one->tie_break.waits());
  const auto begin = Deadline::Clock::now();
  one.reset();
  EXPECT_LT(Deadline::Clock::now() - begin, 3s);
  EXPECT_TRUE(fs::exists(claim));
}

}  // namespace
}  // namespace lockstep::launcher
