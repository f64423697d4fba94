#include "lockstep/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <string_view>

#include "train/option_rules.h"

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
  EXPECT_TRUE(parsed.run.given.empty());
}

TEST(CommandLine, OptionsOfARunThatAreGivenAreKnown) {
  EXPECT_EQ(parse({"--epochs", "10", "--lr=1", "--batch_size", "100", "--drop-last"}).run.given,
            (std::vector<std::string>{"--batch-size", "--drop-last", "--epochs"}));
  // One of the program's own stands for something else.
  RunOptions run;
  std::int64_t own = 1;
  CommandLine line("program", "a test");
  line.add("--epochs", own, "rounds", {.least = 1});
  add_run_options(line, run);
  const char* const words[] = {"program", "--epochs", "3", "--seed", "2"};
  ASSERT_TRUE(line.try_parse(5, words).ok());
  EXPECT_EQ(run.given, (std::vector<std::string>{"--seed"}));
}

TEST(CommandLine, ANumberMayBeGivenWithoutItsName) {
  const auto read = [](std::vector<const char*> words) {
    RunOptions run;
    std::int64_t every = 1;
    CommandLine line("program", "a test");
    line.add("--epochs,total_epochs", run.epochs, "epochs of the whole run", {.least = 1});
    line.add("--save-every,save_every", every, "epochs between files", {.least = 1});
    add_run_options(line, run);
    words.insert(words.begin(), "program");
    const Status status = line.try_parse(static_cast<int>(words.size()), words.data());
    if (!status.ok()) return status.error().message;
    return std::to_string(run.epochs) + " " + std::to_string(every) +
           (run.config.find("epochs=" + std::to_string(run.epochs) + "\n") == std::string::npos
                ? " not in config.toml"
                : "");
  };
  EXPECT_EQ(read({}), "10 1");
  EXPECT_EQ(read({"50", "7"}), "50 7");
  EXPECT_EQ(read({"--epochs", "50", "--save_every=7"}), "50 7");
  EXPECT_EQ(read({"50", "--save-every", "7"}), "50 7");
  EXPECT_EQ(read({"0"}), "--epochs is '0', expected a whole number from 1 to 9223372036854775807");
}

TEST(CommandLine, TheRunsOptionsAreThoseListed) {
  CommandLine line("program", "a test");
  RunOptions run;
  add_run_options(line, run);
  const char* const words[] = {"program", "--help"};
  const std::string help = line.try_parse(2, words).error().message;
  std::set<std::string, std::less<>> found;
  const std::regex option("\n +(?:-h,)?--([a-z-]+)");
  for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it)
    found.insert((*it)[1]);
  EXPECT_EQ(found.erase("help"), 1U) << help;
  EXPECT_EQ(found, (std::set<std::string, std::less<>>(training::kRunOptions.begin(),
                                                       training::kRunOptions.end())));
}

// A message that blames an option must name one that the command line has.
TEST(CommandLine, RulesHaveTheNamesOfOptionsOrOfFields) {
  using namespace training;
  for (const std::string_view name :
       {kEpochs.name, kBatchSize.name, kAccumulationSteps.name, kVirtualWorkers.name,
        kMaxSteps.name, kMaxSeconds.name, kKeepCheckpoints.name, kEvaluationBatchSize.name})
    if (name.starts_with("--")) {
      EXPECT_NE(std::ranges::find(kRunOptions, name.substr(2)), kRunOptions.end()) << name;
    }
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

TEST(CommandLine, NumbersAreDecimal) {
  const Parsed parsed =
      parse({"--epochs", "010", "--seed", "18446744073709551615", "--lr", "+1e-3"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.error().message;
  EXPECT_EQ(parsed.run.epochs, 10);
  EXPECT_EQ(parsed.run.seed, 18446744073709551615U);
  EXPECT_EQ(parsed.lr, 1e-3);
}

TEST(CommandLine, Durations) {
  const Parsed parsed = parse({"--checkpoint-every", "20", "--max-duration=2h30m"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.error().message;
  EXPECT_EQ(parsed.run.checkpoint_every, Duration::steps(20));
  EXPECT_EQ(parsed.run.max_duration.seconds, 9000);
  EXPECT_NE(parse({}).run.config.find("checkpoint-every=100"), std::string::npos);
  EXPECT_EQ(parse({"--checkpoint-every", "1ep"}).run.checkpoint_every.unit,
            Duration::Unit::kEpochs);
}

TEST(CommandLine, WrongWordsAreTold) {
  for (const auto& [words, told] : std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"--epoch", "3"}, "did you mean '--epochs'"},
           {{"--nproc-per-node", "2"}, "options of 'lockstep run' come before the program"},
           {{"--epochs", "many"}, "--epochs"},
           {{"--max-duration", "soon"}, "--max-duration is 'soon', which is no duration"},
           {{"--checkpoint-every", "-1"}, "--checkpoint-every is '-1', which is no duration"},
           {{"--shuffle", "random"},
            "--shuffle is 'random', expected distributed, reshuffle, legacy, sequential, "
            "dataloader or rows"},
           {{"--on-save-error", "contniue"}, "; did you mean 'continue'?"},
           {{"--on-save-error", ""}, "--on-save-error is '', expected continue or stop"},
           {{"--output="},
            "--output has no value; write --output TEXT, or leave the option out (--help says what "
            "it does)"},
           {{"--output", "s3://bucket/run"},
            "--output is 's3://bucket/run': s3:// cannot be read or written yet"},
           {{"--epochs="}, "--epochs has no value; write --epochs INT"},
           {{"--lr", "1", "--shuffle="}, "--shuffle has no value; write --shuffle TEXT"},
           {{"--output"}, "--output has no value"},
           {{"--output", "--epochs", "3"}, "--output has no value"},
           {{"--seed", "-1"},
            "--seed is '-1', expected a whole number from 0 to 18446744073709551615"},
           {{"--seed", "99999999999999999999"}, "from 0 to 18446744073709551615"},
           {{"--epochs", "0"},
            "--epochs is '0', expected a whole number from 1 to 9223372036854775807"},
           {{"--keep-checkpoints", "1e3"}, "whole number"},
           {{"--batch-size", ""}, "whole number"},
           {{"--lr", "nan"}, "--lr is 'nan', expected a finite number"},
           {{"--lr", "1e999"}, "expected a finite number"},
           {{"--lr", "0.1x"}, "expected a finite number"},
           {{"extra"}, "extra"}}) {
    const Parsed parsed = parse(words);
    ASSERT_FALSE(parsed.status.ok()) << words[0];
    EXPECT_EQ(parsed.status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(parsed.status.error().message.find(told), std::string::npos)
        << parsed.status.error().message;
  }
}

TEST(CommandLine, AFlagThatIsOnCanBeTurnedOffAndItsDefaultIsTold) {
  for (const auto& [word, told] : std::vector<std::pair<const char*, const char*>>{
           {"--drop_last", "drop-last=true"}, {"--drop-last=false", "drop-last=false"}}) {
    const Parsed parsed = parse({word});
    ASSERT_TRUE(parsed.status.ok()) << parsed.status.error().message;
    EXPECT_EQ(parsed.run.drop_last, word == std::string("--drop_last"));
    EXPECT_NE(parsed.run.config.find(told), std::string::npos) << parsed.run.config;
  }
  CommandLine line("program", "a test");
  RunOptions run;
  run.drop_last = true;
  add_run_options(line, run);
  const char* words[] = {"program"};
  ASSERT_TRUE(line.try_parse(1, words).ok());
  EXPECT_TRUE(run.drop_last);
  EXPECT_NE(run.config.find("drop-last=true"), std::string::npos) << run.config;
}

TEST(CommandLine, UnknownWordsAreNoErrorForThoseWhoAreToldOfThem) {
  RunOptions run;
  std::string unknown;
  CommandLine line("program", "a test");
  add_run_options(line, run);
  line.on_unknown([&](const std::string& words) { unknown = words; });
  const std::vector<const char*> words{"program", "--epoch", "3",        "--job-name=x", "-n",
                                       "--seed",  "9",       "--output", "run"};
  const Status status = line.try_parse(static_cast<int>(words.size()), words.data());
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(unknown, "--epoch 3 --job-name=x -n; did you mean '--epochs'?");
  EXPECT_EQ(run.seed, 9U);
  EXPECT_TRUE(line.given("--seed"));
  EXPECT_TRUE(line.given("--output"));
  EXPECT_FALSE(line.given("--epochs"));
}

TEST(CommandLine, AMissingValueIsNotTakenFromTheNextOption) {
  RunOptions run;
  CommandLine line("program", "a test");
  add_run_options(line, run);
  line.on_unknown([](const std::string&) {});
  const char* words[] = {"program", "--output", "--epochs", "3"};
  const Status status = line.try_parse(4, words);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("--output has no value"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
