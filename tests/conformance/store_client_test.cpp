// The store beside libtorch's own client, as C++ programs use it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "store/server.h"
#include "torch/csrc/distributed/c10d/PrefixStore.hpp"
#include "torch/csrc/distributed/c10d/TCPStore.hpp"

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

class StoreClient : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    loop_.emplace(*std::move(loop));
    auto server = Server::listen(*loop_, {"127.0.0.1"}, 0);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
    thread_ = std::thread([this] {
      while (go_) loop_->run_once(Deadline::in(20ms));
    });
  }
  void TearDown() override {
    go_ = false;
    thread_.join();
  }
  c10::intrusive_ptr<c10d::TCPStore> client(std::optional<std::size_t> workers = {}) const {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(server_->port());
    options.numWorkers = workers;
    options.timeout = 20s;
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  std::optional<Loop> loop_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> go_{true};
  std::thread thread_;
};

TEST_F(StoreClient, EveryOperation) {
  const auto store = client();
  store->set("key", bytes("value"));
  EXPECT_EQ(store->get("key"), bytes("value"));
  store->_splitSet("slow", bytes("in two pieces"));
  EXPECT_EQ(store->get("slow"), bytes("in two pieces"));
  EXPECT_EQ(store->add("count", 3), 3);
  EXPECT_EQ(store->add("count", -5), -2);
  EXPECT_EQ(store->compareSet("key", bytes("other"), bytes("x")), bytes("value"));
  EXPECT_EQ(store->compareSet("key", bytes("value"), bytes("new")), bytes("new"));
  store->append("key", bytes("er"));
  EXPECT_EQ(store->multiGet({"count", "key"}), (std::vector{bytes("-2"), bytes("newer")}));
  store->multiSet({"a", "b"}, {bytes("1"), bytes("")});
  EXPECT_TRUE(store->check({"a", "b"}));
  EXPECT_FALSE(store->check({"a", "c"}));
  EXPECT_EQ(store->getNumKeys(), 5);
  EXPECT_EQ(store->listKeys().size(), 5u);
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(store->deleteKey("a"));
  store->queuePush("queue", bytes("x"));
  EXPECT_EQ(store->queueLen("queue"), 1);
  EXPECT_EQ(store->queuePop("queue", true), bytes("x"));
  EXPECT_ANY_THROW(store->queuePop("queue", false));
  EXPECT_ANY_THROW(store->wait({"never"}, 50ms));
  EXPECT_EQ(store->clone()->get("b"), bytes(""));
  c10d::PrefixStore prefixed("p", store);
  prefixed.set("key", bytes("1"));
  EXPECT_EQ(store->get("p/key"), bytes("1"));
}

// The workers' count is PyTorch's own way to begin.
TEST_F(StoreClient, ManyMeet) {
  constexpr std::size_t kClients = 24;
  std::vector<std::thread> threads;
  std::atomic<int> well = 0;
  for (std::size_t i = 0; i < kClients; ++i)
    threads.emplace_back([&, i] {
      const auto store = client(kClients);
      for (int round = 0; round < 20; ++round) {
        const std::string name = "round " + std::to_string(round);
        if (store->add(name, 1) == kClients) store->set(name + " is full", bytes("yes"));
        store->wait({name + " is full"});
      }
      store->queuePush("done", bytes(std::to_string(i)));
      well += store->get("round 19") == bytes(std::to_string(kClients)) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, static_cast<int>(kClients));
  EXPECT_EQ(client()->queueLen("done"), static_cast<std::int64_t>(kClients));
}

}  // namespace
}  // namespace lockstep::store
