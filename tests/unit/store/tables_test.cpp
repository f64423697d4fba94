// What a store answers, to whom, and that nothing of a client stays when it is gone.
#include "store/tables.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace lockstep::store {
namespace {

class StoreTables : public ::testing::Test {
 protected:
  // What `client` gets for the request; what others get is in said_.
  std::string ask(ClientId client, const Request& request) {
    said_[client].clear();
    EXPECT_TRUE(tables_.handle(client, request).ok());
    return std::exchange(said_[client], {});
  }
  std::string set(ClientId client, const std::string& key, const std::string& value) {
    return ask(client, {Query::kSet, {key}, {value}, 0});
  }
  std::string get(const std::string& key) { return ask(0, {Query::kGet, {key}, {}, 0}); }
  std::string wait(ClientId client, const std::vector<std::string>& keys) {
    return ask(client, {Query::kWait, keys, {}, 0});
  }
  std::string push(const std::string& queue, const std::string& value) {
    return ask(0, {Query::kQueuePush, {queue}, {value}, 0});
  }
  std::string pop(ClientId client, const std::string& queue) {
    return ask(client, {Query::kQueuePop, {queue}, {}, 0});
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) {
    return ask(0, {Query::kCompareSet, {key}, {expected, desired}, 0});
  }
  std::string add(const std::string& key, std::int64_t more) {
    return ask(0, {Query::kAdd, {key}, {}, more});
  }
  std::string take(ClientId client) { return std::exchange(said_[client], {}); }

  static std::string text(const std::string& value) {
    std::string bytes;
    put_text(bytes, value);
    return bytes;
  }
  static std::string number(std::int64_t value) {
    std::string bytes;
    put_64(bytes, static_cast<std::uint64_t>(value));
    return bytes;
  }
  // READY, STOP_WAITING; NOT_READY, WAIT_CANCELED.
  const std::string yes_ = std::string(1, '\0'), no_ = "\1";

  std::map<ClientId, std::string> said_;
  Tables tables_{100'000,
                 [this](ClientId client, const std::string& bytes) { said_[client] += bytes; }};
};

TEST_F(StoreTables, KeepValues) {
  EXPECT_EQ(set(0, "a", "1"), "");
  EXPECT_EQ(get("a"), text("1"));
  EXPECT_EQ(get("none"), text(""));
  EXPECT_EQ(ask(0, {Query::kAppend, {"a"}, {"23"}, 0}), "");
  EXPECT_EQ(ask(0, {Query::kAppend, {"b"}, {"x"}, 0}), "");
  EXPECT_EQ(ask(0, {Query::kMultiGet, {"b", "none", "a"}, {}, 0}),
            text("x") + text("") + text("123"));
  EXPECT_EQ(ask(0, {Query::kMultiSet, {"c", "a"}, {"C", "A"}, 0}), "");
  EXPECT_EQ(ask(0, {Query::kCountKeys, {}, {}, 0}), number(3));
  EXPECT_EQ(ask(0, {Query::kListKeys, {}, {}, 0}), number(3) + text("a") + text("b") + text("c"));
  EXPECT_EQ(ask(0, {Query::kDelete, {"a"}, {}, 0}), number(1));
  EXPECT_EQ(ask(0, {Query::kDelete, {"a"}, {}, 0}), number(0));
  EXPECT_EQ(get("c"), text("C"));
  EXPECT_EQ(ask(0, {Query::kPing, {}, {}, 0x01020304}), "\x04\x03\x02\x01");
}

TEST_F(StoreTables, CompareAndSet) {
  EXPECT_EQ(compare_set("a", "x", "1"), text("x"));  // as PyTorch: what was expected
  EXPECT_EQ(get("a"), text(""));
  EXPECT_EQ(compare_set("a", "", "1"), text("1"));
  EXPECT_EQ(compare_set("a", "x", "2"), text("1"));
  EXPECT_EQ(compare_set("a", "1", "2"), text("2"));
  EXPECT_EQ(get("a"), text("2"));
}

TEST_F(StoreTables, Count) {
  EXPECT_EQ(add("n", 5), number(5));
  EXPECT_EQ(add("n", -7), number(-2));
  EXPECT_EQ(get("n"), text("-2"));
  set(0, "n", " 12 apples");
  EXPECT_EQ(add("n", 1), number(13));
  EXPECT_EQ(add("n", std::numeric_limits<std::int64_t>::max()),
            number(std::numeric_limits<std::int64_t>::min() + 12));
  set(0, "n", "apples");
  for (const std::string value : {"apples", "", "99999999999999999999"}) {
    set(0, "n", value);
    EXPECT_EQ(tables_.handle(0, {Query::kAdd, {"n"}, {}, 1}).error().kind, ErrorKind::kBadData);
    EXPECT_EQ(get("n"), text(value));
  }
}

TEST_F(StoreTables, WaitForAllKeys) {
  set(0, "a", "1");
  EXPECT_EQ(wait(1, {"a"}), yes_);
  EXPECT_EQ(wait(1, {}), yes_);
  EXPECT_EQ(wait(1, {"a", "b", "c", "b"}), "");
  EXPECT_EQ(wait(2, {"b"}), "");
  add("b", 1);
  EXPECT_EQ(take(1), "");
  EXPECT_EQ(take(2), yes_);
  EXPECT_EQ(compare_set("c", "", "1"), text("1"));
  EXPECT_EQ(take(1), yes_);
  EXPECT_EQ(tables_.waiting(), 0u);
  set(0, "c", "2");
  EXPECT_EQ(take(1), "");
}

TEST_F(StoreTables, AWaitIsCancelled) {
  EXPECT_EQ(wait(1, {"a", "b"}), "");
  EXPECT_EQ(ask(1, {Query::kCancelWait, {}, {}, 0}), no_);
  set(0, "a", "1");
  set(0, "b", "1");
  EXPECT_EQ(take(1), "");
  EXPECT_EQ(ask(1, {Query::kCancelWait, {}, {}, 0}), no_);  // nothing was under way: as PyTorch
}

TEST_F(StoreTables, ASecondWaitTakesTheFirstOnesPlace) {
  EXPECT_EQ(wait(1, {"a"}), "");
  EXPECT_EQ(wait(1, {"b"}), "");
  set(0, "a", "1");
  EXPECT_EQ(take(1), "");
  set(0, "b", "1");
  EXPECT_EQ(take(1), yes_);
}

TEST_F(StoreTables, Check) {
  set(0, "a", "");
  push("q", "x");
  EXPECT_EQ(ask(0, {Query::kCheck, {"a", "q"}, {}, 0}), yes_);
  EXPECT_EQ(ask(0, {Query::kCheck, {"a", "b"}, {}, 0}), no_);
}

TEST_F(StoreTables, QueuesAreFirstInFirstOut) {
  EXPECT_EQ(pop(1, "q"), number(0));
  EXPECT_EQ(push("q", "1"), "");
  EXPECT_EQ(push("q", "2"), "");
  EXPECT_EQ(ask(0, {Query::kQueueLength, {"q"}, {}, 0}), number(2));
  EXPECT_EQ(ask(0, {Query::kQueueLength, {"p"}, {}, 0}), number(0));
  EXPECT_EQ(pop(1, "q"), number(2) + text("1"));
  EXPECT_EQ(pop(1, "q"), number(1) + text("2"));
  EXPECT_EQ(ask(0, {Query::kCountKeys, {}, {}, 0}), number(0));  // a queue is no key: as PyTorch
  EXPECT_EQ(tables_.held(), 0u);
}

TEST_F(StoreTables, AValueWakesOneClient) {
  for (const ClientId client : {1, 2, 3}) EXPECT_EQ(wait(client, {"q"}), "");
  push("q", "x");
  EXPECT_EQ(take(1), yes_);
  EXPECT_EQ(take(2) + take(3), "");
  EXPECT_EQ(pop(1, "q"), number(1) + text("x"));
  push("q", "y");
  push("q", "z");
  EXPECT_EQ(take(2) + take(3), yes_ + yes_);
}

// There the value stays, and the others wait for ever.
TEST_F(StoreTables, WhoIsWokenAndDoesNotTakeItPassesItOn) {
  for (const ClientId client : {1, 2, 3}) EXPECT_EQ(wait(client, {"q"}), "");
  push("q", "x");
  EXPECT_EQ(take(1), yes_);
  EXPECT_EQ(ask(1, {Query::kCancelWait, {}, {}, 0}), no_);  // its time was up at that moment
  EXPECT_EQ(take(2), yes_);
  tables_.drop(2);
  EXPECT_EQ(take(3), yes_);
  EXPECT_EQ(pop(3, "q"), number(1) + text("x"));
}

TEST_F(StoreTables, AWaitForAQueueAndAKey) {
  EXPECT_EQ(wait(1, {"q", "a"}), "");
  push("q", "x");
  EXPECT_EQ(take(1), "");
  set(0, "a", "1");
  EXPECT_EQ(take(1), yes_);
}

TEST_F(StoreTables, Barrier) {
  const auto barrier = [&](ClientId client) {
    return ask(client, {Query::kBarrier, {"b"}, {}, 3});
  };
  EXPECT_EQ(barrier(1), "");
  EXPECT_EQ(barrier(2), "");
  EXPECT_EQ(take(1), "");
  EXPECT_EQ(barrier(3), yes_);
  EXPECT_EQ(take(1) + take(2), yes_ + yes_);
  EXPECT_EQ(get("b"), text("3"));
}

TEST_F(StoreTables, WhatACLientWaitsForIsDroppedWithIt) {
  EXPECT_EQ(wait(1, {"a", "b"}), "");
  EXPECT_EQ(wait(2, {"a"}), "");
  tables_.drop(1);
  tables_.drop(7);  // has never asked
  set(0, "a", "1");
  set(0, "b", "1");
  EXPECT_EQ(take(1), "");
  EXPECT_EQ(take(2), yes_);
  EXPECT_EQ(tables_.waiting(), 0u);
}

TEST_F(StoreTables, AreBounded) {
  const std::string large(60'000, 'x');
  set(0, "a", large);
  for (const Request& request :
       {Request{Query::kSet, {"b"}, {large}, 0}, Request{Query::kAppend, {"a"}, {large}, 0},
        Request{Query::kQueuePush, {"q"}, {large}, 0},
        Request{Query::kCompareSet, {"b"}, {"", large}, 0},
        Request{Query::kMultiSet, {"b", "c"}, {"", large}, 0},
        Request{Query::kWait, {large}, {}, 0}}) {
    const Status done = tables_.handle(0, request);
    ASSERT_FALSE(done.ok()) << name_of(request.query);
    EXPECT_EQ(done.error().kind, ErrorKind::kUnavailable);
    EXPECT_NE(done.error().message.find("limit of 100000"), std::string::npos)
        << done.error().message;
  }
  EXPECT_LE(tables_.held(), 100'000u);
  set(0, "a", "");  // room again
  set(0, "b", large);
  // Many small ones: what is kept beside the bytes counts.
  int count = 0;
  while (tables_.handle(0, {Query::kSet, {std::to_string(count)}, {""}, 0}).ok()) ++count;
  EXPECT_LT(count, 200);
  EXPECT_EQ(get("b"), text(large));
}

TEST_F(StoreTables, AnswersAreBounded) {
  Tables tables(kMaxMessage,
                [](ClientId, const std::string& bytes) { EXPECT_LE(bytes.size(), kMaxMessage); });
  ASSERT_TRUE(tables.handle(0, {Query::kSet, {"a"}, {std::string(kMaxValue, 'x')}, 0}).ok());
  EXPECT_TRUE(tables.handle(0, {Query::kMultiGet, std::vector<std::string>(7, "a"), {}, 0}).ok());
  EXPECT_EQ(
      tables.handle(0, {Query::kMultiGet, std::vector<std::string>(9, "a"), {}, 0}).error().kind,
      ErrorKind::kUnavailable);
}

// Any order of everything: the account of memory comes out at nothing.
TEST_F(StoreTables, NothingIsLeftOfAnybody) {
  std::mt19937 random(30);
  const auto key = [&] { return std::string(1, static_cast<char>('a' + random() % 5)); };
  for (int round = 0; round < 30'000; ++round) {
    const auto client = static_cast<ClientId>(random() % 6);
    Request request{static_cast<Query>(1 + random() % (kQueries - 1)), {}, {}, 2};
    for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
      request.keys.push_back(key());
      request.values.push_back(std::to_string(random() % 100));
    }
    request.values.resize(std::max<std::size_t>(2, request.keys.size()));
    if (random() % 20 == 0 || !tables_.handle(client, request).ok()) tables_.drop(client);
  }
  for (ClientId client = 0; client < 6; ++client) tables_.drop(client);
  EXPECT_EQ(tables_.waiting(), 0u);
  for (char c = 'a'; c < 'f'; ++c) {
    const std::string name(1, c);
    ask(0, {Query::kDelete, {name}, {}, 0});
    while (pop(0, name) != number(0)) continue;
  }
  EXPECT_EQ(tables_.held(), 0u);
  EXPECT_EQ(tables_.keys(), 0u);
}

}  // namespace
}  // namespace lockstep::store
