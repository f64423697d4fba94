#include "launcher/program/program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

std::string refusal(const std::string& name) {
  LaunchOptions options;
  options.program = {name};
  const auto program = find_program(options);
  EXPECT_FALSE(program.ok()) << name;
  return program.ok() ? "" : program.error().message;
}

// torchrun gives them to Python: scripts without an ending, folders and zip files of modules.
TEST(Program, OneThatIsHereButNotExecutableIsToldSo) {
  const test::TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::ofstream("train") << "print(1)\n";
  std::filesystem::create_directory("package");
  for (const char* name : {"train", "package"})
    EXPECT_NE(refusal(name).find("if it is Python's, give --run-path before it"), std::string::npos)
        << refusal(name);
  EXPECT_EQ(refusal("tra1n"), "cannot start 'tra1n': no such program in PATH");
  std::filesystem::permissions("train", std::filesystem::perms::owner_all);
  EXPECT_NE(refusal("train").find("did you mean './train'?"), std::string::npos);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace lockstep::launcher
