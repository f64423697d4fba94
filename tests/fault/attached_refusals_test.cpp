// Who is not let into a run that is started by hand, and what cannot be started so.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "coord/channel.h"
#include "fault/attached_support.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(Attached, NotAllRanksCome) {
  Ranks ranks;
  for (const int rank : {0, 2}) ranks.push_back(begin(rank, {"--wait", "3000"}));
  for (auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.code, 69) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("not all workers were ready within 3.0 s: of 3 nobody has "
                                       "come as rank 1"));
  }
}

TEST_F(Attached, ARankIsOneProcess) {
  Ranks ranks = begin_all(kLong);
  ASSERT_TRUE(ranks[0]->wait_for_output("step 5\n"));
  const Outcome twice = begin(1, kLong)->wait();
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("rank 1 of the run at " + address() + " is process " +
                                   std::to_string(ranks[1]->pid()) + ", which is alive"));
  const Outcome other_size = begin(1, kLong, {}, 4)->wait();
  EXPECT_EQ(other_size.code, 2);
  EXPECT_THAT(other_size.err, HasSubstr("is one of 3 ranks, and this process was started as one "
                                        "of 4"));
  for (auto& rank : ranks) expect_well(*rank);
}

TEST_F(Attached, AnotherManifestIsRefusedAndTheRightOneIsTaken) {
  Ranks ranks;
  ranks.push_back(begin(0, kSlow));
  // It is let in: told of whoever is refused, and its manifest is what the others' have to be.
  ASSERT_TRUE(until([&] { return std::filesystem::exists(run_dir() + "/manifest.json"); }));
  ranks.push_back(begin(2, kSlow));
  const Outcome wrong = begin(1, {"--txns", "61", "--step-us", "20000"})->wait();
  EXPECT_EQ(wrong.code, 2);
  ranks.push_back(begin(1, kSlow));
  for (auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (rank == ranks[0]) {
      EXPECT_EQ(last_line(outcome.out), expected("60"));
      EXPECT_THAT(outcome.err, HasSubstr("rank 1 (worker 2) cannot take part: it is not about "
                                         "to run the same as the others: manifest"));
    }
  }
}

TEST_F(Attached, ADeadFirstOneDecidesNothing) {
  // A wrong command alone: what it was about to run is forgotten with it.
  auto wrong = begin(0, {"--txns", "61"});
  ASSERT_TRUE(until([&] { return std::filesystem::exists(run_dir() + "/.tmp-lockstep-control"); }));
  auto right = begin(2, {"--txns", "40", "--load-ms", "300"}, {});
  // It is let in, or refused already: no launcher ends before it has come.
  ASSERT_TRUE(until([&] {
    const std::string process = "/proc/" + std::to_string(right->pid());
    return read_text(process + "/maps").find("memfd:lockstep") != std::string::npos ||
           read_text(process + "/stat").find(") Z ") != std::string::npos;
  }));
  wrong->send(SIGKILL);
  wrong->wait();
  Ranks ranks;
  for (const int rank : {0, 1}) ranks.push_back(begin(rank, {"--txns", "40"}));
  const Outcome other = right->wait();  // refused if it was sooner than the other's end
  if (other.code != 0) {
    EXPECT_EQ(other.code, 2) << other.err;
    ranks.push_back(begin(2, {"--txns", "40"}));
  }
  for (auto& rank : ranks) expect_well(*rank);
}

TEST_F(Attached, ARunDirectoryThatIsNotOursIsRefusedToAllOfThem) {
  std::filesystem::create_directories(run_dir());
  std::ofstream(run_dir() + "/metrics.jsonl") << "somebody's\n";
  for (auto& rank : begin_all({"--txns", "40"})) {
    const Outcome outcome = rank->wait();
    EXPECT_NE(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.code, -1000) << "hung: " << outcome.err;
  }
}

// Whoever knows the socket's name may say anything there.
class Stranger {
 public:
  explicit Stranger(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path + 1, name.size() - 1, 1);  // without the @
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  bool connects() const { return ::connect(socket_.get(), get(), size_) == 0; }
  bool binds() const { return ::bind(socket_.get(), get(), size_) == 0; }
  bool listens() const { return binds() && ::listen(socket_.get(), 8) == 0; }
  std::string says(const coord::Message& text, pid_t process) const {
    if (!connects()) return "does not connect";
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    const int descriptors[] = {pidfd.get(), 1, 2};
    if (!coord::send(socket_.get(), text, Deadline::in(1s), descriptors).ok()) return "cannot say";
    const auto answer = coord::receive(socket_.get(), Deadline::in(5s));
    if (!answer.ok()) return answer.error().message;
    const auto* refusal = std::get_if<coord::message::Refuse>(&answer->message);
    return refusal == nullptr ? "it is let in" : refusal->message;
  }
  bool says_garbage() const {
    return connects() && ::send(socket_.get(), "garbage", 7, MSG_NOSIGNAL) == 7 &&
           !coord::receive(socket_.get(), Deadline::in(5s)).ok();
  }

 private:
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  UniqueFd socket_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

TEST_F(Attached, StrangersAreSentAway) {
  auto first = begin(0, {"--txns", "40"});
  ASSERT_TRUE(until([&] { return std::filesystem::exists(run_dir() + "/.tmp-lockstep-control"); }));
  using coord::kProtocolVersion;
  using coord::message::Attach;
  const auto says = [&](const Attach& wish, pid_t process) {
    return Stranger(socket_name()).says(wish, process);
  };
  EXPECT_THAT(
      says({kProtocolVersion + 1, Rank(1), 3}, ::getpid()),
      HasSubstr("the program was built with version " + std::to_string(kProtocolVersion + 1)));
  // A number that is another process's by now, or was never its own.
  EXPECT_THAT(says({kProtocolVersion, Rank(1), 3}, first->pid()),
              HasSubstr("is not the one that wants to attach"));
  EXPECT_THAT(says({kProtocolVersion, Rank(-1), 3}, ::getpid()), HasSubstr("started as rank -1"));
  EXPECT_THAT(Stranger(socket_name()).says(coord::message::StatusQuery{}, ::getpid()),
              HasSubstr("is no wish to attach"));
  EXPECT_FALSE(Stranger(socket_name()).says_garbage());
  const Stranger silent(socket_name());
  EXPECT_TRUE(silent.connects());
  Ranks ranks;
  for (const int rank : {1, 2}) ranks.push_back(begin(rank, {"--txns", "40"}));
  ranks.push_back(std::move(first));
  for (auto& rank : ranks) expect_well(*rank);
}

TEST_F(Attached, ABinderThatDoesNotListenIsWaitedFor) {
  Ranks ranks;
  {
    const Stranger slow(socket_name());
    ASSERT_TRUE(slow.binds());
    ranks = begin_all({"--txns", "40"});
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(launcher(), -1);
  }
  for (auto& rank : ranks) expect_well(*rank);
}

// In a process of that user, with the socket held until `hold` ends; false: it cannot be.
bool as_another_user(const std::function<bool()>& begin, const std::function<void()>& meanwhile) {
  int ready[2], hold[2];
  if (::pipe2(ready, O_CLOEXEC) != 0 || ::pipe2(hold, O_CLOEXEC) != 0) return false;
  const pid_t other = ::fork();
  char byte = 0;
  if (other == 0) {
    ::close(hold[1]);
    const bool done = ::setresuid(65534, 65534, 65534) == 0 && begin();
    byte = done ? 1 : 0;
    [[maybe_unused]] auto n = ::write(ready[1], &byte, 1);
    n = ::read(hold[0], &byte, 1);
    ::_exit(0);
  }
  [[maybe_unused]] const auto n = ::read(ready[0], &byte, 1);
  meanwhile();
  for (const int fd : {ready[0], ready[1], hold[0], hold[1]}) ::close(fd);
  ::waitpid(other, nullptr, 0);
  return byte == 1;
}

TEST_F(Attached, OtherUsersAreNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  const Stranger stranger(socket_name());
  EXPECT_TRUE(as_another_user([&] { return stranger.listens(); },
                              [&] {
                                const Outcome outcome = begin(0, {})->wait();
                                EXPECT_EQ(outcome.code, 69);
                                EXPECT_THAT(outcome.err,
                                            HasSubstr("is taken by another user (65534)"));
                              }));
}

TEST_F(Attached, OtherUsersAreNotLetIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  auto first = begin(0, {"--txns", "40"});
  ASSERT_TRUE(until([&] { return launcher() > 0; }));
  const coord::message::Attach wish{coord::kProtocolVersion, Rank(1), 3};
  const std::string name = socket_name();  // ours, whoever asks
  EXPECT_TRUE(as_another_user(
      [&] {
        const std::string answer = Stranger(name).says(wish, ::getpid());
        return answer == "cannot say" || answer.find("the other side") != std::string::npos;
      },
      [] {}));
  Ranks ranks;
  for (const int rank : {1, 2}) ranks.push_back(begin(rank, {"--txns", "40"}));
  ranks.push_back(std::move(first));
  for (auto& rank : ranks) expect_well(*rank);
}

TEST_F(Attached, RanksAndAddressesThatCannotBe) {
  const auto fails = [&](int rank, int world, const std::string& where, const std::string& word) {
    const Outcome outcome = run(by_hand(rank, {}, world, where), variables());
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(word));
  };
  fails(3, 3, address(), "of 3 ranks there are 0 to 2");
  fails(0, 0, address(), "the number of ranks (world size) is 0");
  fails(0, 200, address(), "1 to 128 are possible");
  fails(0, 3, "tcp://192.0.2.1:29500", "several, 'lockstep run --nnodes' starts them");
  fails(0, 3, "tcp://127.0.0.1", "it must be tcp://HOST:PORT");
  fails(0, 3, "tcp://127.0.0.1:99999", "the port '99999'");
  fails(0, 3, "file:///tmp/x", "by a file is not supported");
  fails(0, 3, "", "nothing says where the others are");
  EXPECT_FALSE(std::filesystem::exists(run_dir()));
}

TEST_F(Attached, ALauncherThatCannotStartIsAnError) {
  const Outcome none = run(by_hand(0, {}), {{"LOCKSTEP_LAUNCHER", "/bin/true"}});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("lockstep::init() cannot use '/bin/true' as its launcher"));
  const Outcome broken = run(by_hand(0, {}), variables({{"PET_STOP_GRACE", "soon"}}));
  EXPECT_EQ(broken.code, 69);
  EXPECT_THAT(broken.err, HasSubstr("PET_STOP_GRACE"));
  EXPECT_THAT(broken.err, HasSubstr("has ended; its error is above"));
}

}  // namespace
}  // namespace lockstep::test
