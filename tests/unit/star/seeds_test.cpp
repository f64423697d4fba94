// What fuzz_star begins with (tests/fuzz/seeds/fuzz_star): frames with a u16 length before each.
// Where a message has other fields than before they are worth nothing, and are written anew:
//   star_unit_test --gtest_also_run_disabled_tests --gtest_filter='*AreWritten'
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "star/messages.h"
#include "support/temp_folder.h"

namespace lockstep::star {
namespace {

std::string frame(const Message& message) {
  const std::string text = *encode(message);
  return std::string{static_cast<char>(text.size() & 255u), static_cast<char>(text.size() >> 8u)} +
         text;
}

void write(const std::string& name, const std::string& bytes) {
  std::ofstream(std::string(FUZZ_SEEDS) + "/" + name, std::ios::binary) << bytes;
}

nodes::NodeWord first_word() {
  nodes::NodeWord word;
  word.row = {{}, "10.0.0.3", "machine103", 103, 2, "default", "ml-03"};
  word.has_lock = true;
  word.sent = 1;
  return word;
}

// The fuzzer's third node comes, has nothing alive, runs, fails, runs again, and is stopped.
std::string node_words() {
  std::string all;
  nodes::NodeWord word = first_word();
  const auto say = [&] { all += frame(word), ++word.sent; };
  for (int i = 0; i < 3; ++i) say();
  word.told = word.ran = word.alive = 1;
  for (int i = 0; i < 2; ++i) say();
  word.failure = nodes::Failure{1, 5, "rank 4 broke", 1, false, 4, false, false};
  say();
  word.alive = 0;
  for (int i = 0; i < 2; ++i) say();
  word.failure.reset();
  word.told = word.ran = word.alive = 2;
  say();
  word.ended = 2, word.alive = 0;
  say();
  word.signal = 15;
  say();
  word.final = nodes::Final{143, "stopped"};
  say();
  return all;
}

nodes::LeaderWord first_answer() {
  nodes::LeaderWord word;
  word.incarnation = 100, word.machine = "machine100", word.run = 7, word.leader_rank = 0;
  word.limit = 2'000'000'000, word.sent = 1;
  return word;
}

// Of a leader to the fuzzer's node: the run forms, fails once, and is stopped.
std::string leader_words() {
  std::string all;
  nodes::LeaderWord word = first_answer();
  word.rank = 1, word.base_rank = 2, word.role_base = 2, word.world = word.role_world = 6;
  word.sent = word.echo = 1'000'000'000'000;
  const auto tell = [&] { all += frame(word), word.echo = word.sent += 100'000'000; };
  word.waits_for = "node 2 (never seen)";
  tell();
  word.waits_for.clear(), word.attempt = 1, word.runs = true;
  tell();
  word.store = nodes::Store{1, "10.0.0.1", 29'500, true};
  for (int i = 0; i < 2; ++i) tell();
  word.runs = false, word.why = "node 2 (10.0.0.3): rank 4 broke";
  tell();
  word.attempt = 2, word.runs = true;
  tell();
  word.signal = 15, word.why = "node 0 (10.0.0.1) was stopped by SIGTERM";
  tell();
  word.runs = false, word.final = nodes::Final{143, word.why};
  tell();
  word.over = true;
  tell();
  return all;
}

TEST(Seeds, DISABLED_AreWritten) {
  nodes::NodeWord full = first_word();
  full.row.rank = 2, full.told = full.ran = full.alive = 1, full.led_from = "several";
  full.store = nodes::Store{1, "10.0.0.3", 29'500, true};
  full.failure = nodes::Failure{1, 5, "rank 4 broke", 7, true, 4, true, true};
  full.signal = 15, full.signal_by = "'lockstep stop' on ml-02", full.kill_all = true;
  full.stop_why = "node 0 (10.0.0.1) was stopped by SIGTERM";
  full.final = nodes::Final{143, full.stop_why, 0};
  nodes::LeaderWord refuses = first_answer();
  refuses.refusal = "the run has all its 3 nodes", refuses.refusal_code = 69;
  write("node_word", frame(full));
  write("node_words", node_words());
  write("leader_refuses", frame(refuses));
  write("leader_words", leader_words());
  write("hello", frame(message::Hello{"job7",
                                      "ml-01",
                                      3,
                                      1,
                                      true,
                                      2'000'000'000,
                                      {"train.py", "--lr", "0.1"},
                                      "10.0.0.2",
                                      "0.1.0",
                                      true,
                                      "lockfile=/locks",
                                      "a:29400,b:29400",
                                      true}));
  write("leads", frame(message::Leads{2, true}));
  write("welcome", frame(message::Welcome{"ml-00", "10.0.0.2"}));
  write("refused", frame(message::Refused{message::Reason::kOtherOption, "nnodes", "2, and 3"}));
  write("failed", frame(message::Failed{3, 1, 17, -9, 1, "ml-01", "/tmp/e", true, "{}"}));
}

TEST(Seeds, AreMessages) {
  int count = 0;
  for (const auto& seed : std::filesystem::directory_iterator(FUZZ_SEEDS)) {
    const std::string text = lockstep::test::read_text(seed.path());
    std::string_view bytes = text;
    for (; bytes.size() >= 2; ++count) {
      const std::size_t size =
          static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
      const auto message = decode(bytes.substr(2, size));
      EXPECT_TRUE(message.ok()) << seed.path() << ": " << message.error().message;
      bytes.remove_prefix(std::min(bytes.size(), 2 + size));
    }
  }
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace lockstep::star
