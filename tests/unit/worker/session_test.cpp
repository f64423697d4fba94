// A session alone: the agent's part done in the process.
#include "worker/session.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>

#include "coord/channel.h"
#include "coord/version.h"
#include "support/child.h"
#include "support/memory_flags.h"
#include "worker/fork_point.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

TEST(AloneSession, HasABoardWithItsOwnTable) {
  auto session = Session::open();
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_FALSE((*session)->launched());
  EXPECT_EQ((*session)->identity().world_size, 1);
  test::TempFolder folder;
  Description description;
  description.run_dir = folder.path();
  auto admission = (*session)->describe(description);
  ASSERT_TRUE(admission.ok()) << admission.error().message;
  EXPECT_FALSE(admission->newcomer);
  ASSERT_TRUE((*session)->ready(Txn(7), 0).ok());
  const coord::Board board((*session)->memory(), description.board);
  coord::Table table;
  ASSERT_TRUE(coord::read_table(board.table(Txn(7)), Txn(7), table));
  ASSERT_EQ(table.members.size(), 1U);
  EXPECT_EQ(table.members[0].uid, (*session)->identity().uid);
  EXPECT_EQ(coord::read_proposal(board.header().proposal).members, table.members);
  EXPECT_EQ(board.slot(Slot(0)).uid.load(), table.members[0].uid.value());
  EXPECT_TRUE((*session)->sync_records(Txn(7), Deadline::in(1s)).ok());
  EXPECT_TRUE(test::is_kept_from_core_dumps((*session)->memory()));
}

TEST(AloneSession, ASecondOneOfTheSameDirectoryIsRefused) {
  test::TempFolder folder;
  Description description;
  description.run_dir = folder.path();
  auto first = Session::open(), second = Session::open();
  ASSERT_TRUE(first.ok() && second.ok());
  auto lock = (*first)->describe(description);
  ASSERT_TRUE(lock.ok());
  const auto begin = Deadline::Clock::now();
  const auto refused = (*second)->describe(description);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(refused.error().message.find(folder.path()), std::string::npos);
  EXPECT_LT(Deadline::Clock::now() - begin, 8s);
  lock->run_lock.reset();
  auto third = Session::open();  // a refused one has had its turn
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE((*third)->describe(description).ok());
}

// What `--start-method exec` hands to a worker.
Result<std::unique_ptr<Session>> open_on_board_of(std::uint64_t version) {
  LOCKSTEP_ASSIGN(auto ends, coord::make_channel());
  const UniqueFd board(::memfd_create("board", MFD_CLOEXEC));
  std::array<std::uint64_t, 512> page{coord::kBoardMagic, version};
  if (::write(board.get(), page.data(), sizeof page) != sizeof page ||
      ::ftruncate(board.get(), static_cast<off_t>(coord::fixed_bytes())) != 0)
    return Error{ErrorKind::kDisk, "the board"};
  const int descriptors[] = {board.get()};
  LOCKSTEP_TRY(
      coord::send(ends.first.get(), coord::message::ForkRequest{}, Deadline::in(1s), descriptors));
  ::setenv("LOCKSTEP_WORKER_FD", std::to_string(ends.second.release()).c_str(), 1);
  return Session::open();
}

TEST(Session, ABoardOfAnotherVersionIsLeftAlone) {
  for (const std::uint64_t version : {0U, coord::kProtocolVersion + 1}) {
    const auto session = open_on_board_of(version);
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.error().kind, ErrorKind::kUsage);
    for (const std::uint64_t named : {version, std::uint64_t{coord::kProtocolVersion}})
      EXPECT_NE(session.error().message.find("version " + std::to_string(named)), std::string::npos)
          << session.error().message;
  }
}

TEST(Session, ACoreDumpOfAWorkerIsWithoutTheBoard) {
  const auto session = open_on_board_of(coord::kProtocolVersion);
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_TRUE((*session)->launched());
  EXPECT_TRUE(test::is_kept_from_core_dumps((*session)->memory()));
}

#ifndef __SANITIZE_THREAD__  // which has a thread of its own: the fork point refuses it
// The agent's part, by a process that adopts no orphans: what it has forked finds another parent.
[[noreturn]] void ask_for_a_worker(int words) {
  auto ends = coord::make_channel();
  if (!ends.ok()) ::_exit(2);
  if (::fork() == 0) {  // the zygote
    ends->first.reset();
    ::dup2(words, STDERR_FILENO);
    ::_exit(serve_forks(std::move(ends->second)).ok() ? 3 : 4);
  }
  ends->second.reset();
  coord::message::ForkRequest request;
  request.request = 7;
  const int descriptors[] = {1, 1, 1, 1};
  const Deadline deadline = Deadline::in(10s);
  const bool asked = coord::receive(ends->first.get(), deadline).ok() &&  // ZygoteReady
                     coord::send(ends->first.get(), request, deadline, descriptors).ok() &&
                     coord::receive(ends->first.get(), deadline).ok();  // Forked
  ends->first.reset();
  ::wait(nullptr);
  ::_exit(asked ? 0 : 5);
}

TEST(ForkPoint, AWorkerThatIsNotTheLaunchersSaysWhyItEnds) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd readable(ends[0]);
  UniqueFd writable(ends[1]);
  const pid_t agent = ::fork();
  if (agent == 0) ask_for_a_worker(writable.get());
  writable.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(agent, &status, 0), agent);
  EXPECT_EQ(status, 0);
  std::string text(4096, '\0');  // what there is, or the end
  text.resize(static_cast<std::size_t>(::read(readable.get(), text.data(), text.size())));
  EXPECT_NE(text.find("a worker cannot start: its parent is process "), std::string::npos) << text;
  EXPECT_NE(text.find("not the launcher, process " + std::to_string(agent)), std::string::npos)
      << text;
}
#endif

TEST(Session, AStrayVariableIsAnError) {
  ASSERT_EQ(::setenv("LOCKSTEP_WORKER_FD", "900", 1), 0);
  const auto session = Session::open();
  ::unsetenv("LOCKSTEP_WORKER_FD");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep::worker
