// Both ends of the control socket.
#include "launcher/run_directory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

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

}  // namespace
}  // namespace lockstep::launcher
