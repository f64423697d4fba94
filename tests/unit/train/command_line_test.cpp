#include "lockstep/command_line.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Parsed {
  RunOptions run;
  double lr = 0.5;
  Status status;
};

Parsed parse(std::vector<const char*> words) {
  Parsed parsed;
  CommandLine line("program", "a test");
  line.add("--lr", parsed.lr, "learning rate");
  add_run_options(line, parsed.run);
  words.insert(words.begin(), "program");
  parsed.status = line.try_parse(static_cast<int>(words.size()), words.data());
  return parsed;
}

TEST(CommandLine, DefaultsAreThoseOfTheOptions) {
  const Parsed parsed = parse({});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.error().message;
  EXPECT_EQ(parsed.run.epochs, RunOptions().epochs);
  EXPECT_EQ(parsed.run.shuffle, data::Shuffle::kReshuffle);
  EXPECT_NE(parsed.run.config.find("batch-size=100"), std::string::npos) << parsed.run.config;
}

TEST(CommandLine, BothSpellingsAndTheLastOneCounts) {
  const Parsed parsed = parse({"--batch_size", "7", "--lr=0.1", "--shuffle", "reshuffle",
                               "--on-save-error", "stop", "--lr", "0.25"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.error().message;
  EXPECT_EQ(parsed.run.batch_size, 7);
  EXPECT_EQ(parsed.lr, 0.25);
  EXPECT_EQ(parsed.run.shuffle, data::Shuffle::kReshuffle);
  EXPECT_FALSE(parsed.run.continue_on_save_error);
  EXPECT_NE(parsed.run.config.find("lr=0.25"), std::string::npos) << parsed.run.config;
}

TEST(CommandLine, WrongWordsAreTold) {
  for (const auto& [words, told] : std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"--epoch", "3"}, "did you mean '--epochs'"},
           {{"--epochs", "many"}, "--epochs"},
           {{"--shuffle", "random"}, "distributed"},
           {{"--seed", "-1"}, "--seed"},
           {{"extra"}, "extra"}}) {
    const Parsed parsed = parse(words);
    ASSERT_FALSE(parsed.status.ok()) << words[0];
    EXPECT_EQ(parsed.status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(parsed.status.error().message.find(told), std::string::npos)
        << parsed.status.error().message;
  }
}

}  // namespace
}  // namespace lockstep
