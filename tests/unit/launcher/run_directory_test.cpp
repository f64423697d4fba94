// Both ends of the control socket.
#include "launcher/linked/run_directory.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "rundir/lock.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

TEST(RunDirectory, NothingIsMadeInAnotherThatTookItsPlace) {
  const test::TempFolder folder;
  const std::string path = folder / "run";
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  auto lock = rundir::lock_run_directory(path, Deadline::in(0s));
  ASSERT_TRUE(lock.ok());
  std::filesystem::rename(path, folder / "moved");
  std::filesystem::create_directory(path);
  const auto directory =
      RunDirectory::open(path, std::move(*lock), *loop, [](const coord::Message&, const auto&) {});
  EXPECT_TRUE(std::filesystem::is_empty(path));
  EXPECT_TRUE(std::filesystem::exists(folder / "moved/incidents"));
}

TEST(ControlSocket, AQuestionThatTheEndCutsOffIsToldSo) {
  const test::TempFolder folder;
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  auto lock = rundir::lock_run_directory(folder.path(), Deadline::in(0s));
  ASSERT_TRUE(lock.ok());
  bool asked = false;
  auto directory = RunDirectory::open(folder.path(), std::move(*lock), *loop,
                                      [&](const coord::Message&, const auto&) { asked = true; });
  ASSERT_TRUE(directory.ok());
  std::optional<Result<coord::message::Reply>> reply;
  std::jthread client([&] { reply = ask_launcher(folder.path(), coord::message::StatusQuery{}); });
  for (const Deadline deadline = Deadline::in(10s); !asked && !deadline.passed();)
    loop->run_once(Deadline::in(10ms));
  directory->reset();
  client.join();
  ASSERT_FALSE(reply->ok());
  EXPECT_EQ(reply->error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(reply->error().message.find("has just ended"), std::string::npos)
      << reply->error().message;
}

TEST(ControlSocket, AQuestionsFailureIsItsAnswer) {
  const test::TempFolder folder;
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  auto lock = rundir::lock_run_directory(folder.path(), Deadline::in(0s));
  ASSERT_TRUE(lock.ok());
  auto directory = RunDirectory::open(
      folder.path(), std::move(*lock), *loop,
      [](const coord::Message&, const auto&) { throw std::runtime_error("it broke"); });
  ASSERT_TRUE(directory.ok());
  std::jthread launcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) loop->run_once(Deadline::in(10ms));
  });
  for (int i = 0; i < 2; ++i) {
    const auto reply = ask_launcher(folder.path(), coord::message::StatusQuery{});
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_FALSE(reply->ok);
    EXPECT_EQ(reply->kind, ErrorKind::kInternal);
    EXPECT_NE(reply->text.find("it broke"), std::string::npos) << reply->text;
  }
}

// Clients that connect and say nothing, and one that asks.
class CrowdedControlSocket : public testing::Test {
 protected:
  void crowd(std::chrono::seconds patience) {
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    auto lock = rundir::lock_run_directory(folder_.path(), Deadline::in(0s));
    ASSERT_TRUE(lock.ok());
    const auto answer = [](const coord::Message&, const auto& reply) {
      reply(coord::message::Reply{true, "here"});
    };
    auto directory = RunDirectory::open(folder_.path(), std::move(*lock), *loop, answer, patience);
    ASSERT_TRUE(directory.ok());
    std::jthread launcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) loop->run_once(Deadline::in(10ms));
    });
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ / kControlSocket;
    ASSERT_LT(path.size(), sizeof address.sun_path);
    std::copy(path.begin(), path.end(), address.sun_path);
    std::vector<UniqueFd> silent;
    for (std::size_t i = 0; i < RunDirectory::kMostClients; ++i) {
      silent.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address),
                          sizeof address),
                0);
    }
    reply_ = ask_launcher(folder_.path(), coord::message::StatusQuery{});
  }

  const test::TempFolder folder_;
  std::optional<Result<coord::message::Reply>> reply_;
};

TEST_F(CrowdedControlSocket, WhoFindsNoRoomIsToldSo) {
  for (int i = 0; i < 20; ++i) {  // its question comes before it is turned away, or after
    crowd(1h);
    ASSERT_TRUE(reply_->ok()) << reply_->error().message;
    EXPECT_FALSE((*reply_)->ok);
    EXPECT_EQ((*reply_)->kind, ErrorKind::kUnavailable);
    EXPECT_NE((*reply_)->text.find("busy"), std::string::npos) << (*reply_)->text;
  }
}

TEST_F(CrowdedControlSocket, WhoIsSilentForTooLongMakesRoom) {
  crowd(0s);
  ASSERT_TRUE(reply_->ok()) << reply_->error().message;
  EXPECT_EQ((*reply_)->text, "here");
}

}  // namespace
}  // namespace lockstep::launcher
