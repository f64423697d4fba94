// A store whose clients are handed in by somebody else.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/port.h"
#include "store/server.h"
#include "support/store_peer.h"

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;

class AdoptingStore : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }
  void open(const Limits& limits) {
    server_.reset();
    loop_.emplace(*Loop::open());
    auto server = Server::without_listener(*loop_, limits);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
    EXPECT_EQ(server_->port(), 0);
  }
  // The client's end, blocking; the other end is adopted at once, with what the client has sent.
  std::unique_ptr<Peer> adopted(const std::string& first, const std::string& from = "") {
    auto peer = std::make_unique<Peer>(port_of(door_.get()), false);
    peer->send(first);
    server_->adopt(UniqueFd(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC)), from);
    return peer;
  }
  // With what the server does meanwhile.
  bool served(const Peer& peer) {
    return alongside(*loop_, [&] { return peer.served(); });
  }
  bool closed(const Peer& peer) {
    return alongside(*loop_, [&] { return peer.closed(); });
  }
  static UniqueFd listening() {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    return socket;
  }

  const std::string hello_ = encode({Query::kValidate, {}, {}, kMagic});
  const UniqueFd door_ = listening();
  std::optional<Loop> loop_;
  std::unique_ptr<Server> server_;
};

TEST_F(AdoptingStore, ServesWhoIsHandedIn) {
  const auto one = adopted(hello_), other = adopted("");
  EXPECT_TRUE(served(*one));
  other->send(hello_ + encode({Query::kSet, {"/k"}, {"v"}, 0}));
  EXPECT_TRUE(served(*other));
  one->send(encode({Query::kGet, {"/k"}, {}, 0}));
  EXPECT_TRUE(alongside(*loop_, [&] { return one->receive(9) == text("v"); }));
}

TEST_F(AdoptingStore, BeginsAnew) {
  const auto old = adopted(hello_ + encode({Query::kSet, {"/k"}, {"v"}, 0}));
  ASSERT_TRUE(served(*old));
  const auto stranger = adopted("");
  server_->begin_anew();
  EXPECT_TRUE(old->closed());
  EXPECT_TRUE(stranger->closed());
  EXPECT_EQ(server_->clients(), 0u);
  const auto fresh = adopted(hello_ + encode({Query::kCountKeys, {}, {}, 0}));
  std::string none;
  put_64(none, 0);
  EXPECT_TRUE(alongside(*loop_, [&] { return fresh->receive(8) == none; }));
}

// Nobody can wait in a queue here; who speaks gets in whatever the number of those who do not.
TEST_F(AdoptingStore, WhoDoesNotSpeakMakesRoomAtOnce) {
  open({.stored = 1 << 20, .buffered = 1 << 20, .clients = 4});
  const auto good = adopted(hello_);
  ASSERT_TRUE(served(*good));
  std::vector<std::unique_ptr<Peer>> flood(100);
  const auto waits = adopted(hello_);  // its words are there, though nobody has read them yet
  for (auto& stranger : flood) stranger = adopted(std::string(1, '\0'));
  EXPECT_LE(server_->clients(), 4u);
  EXPECT_TRUE(flood.front()->closed());
  EXPECT_TRUE(served(*waits));
  EXPECT_TRUE(served(*adopted(hello_)));
  EXPECT_TRUE(served(*good));
}

TEST_F(AdoptingStore, WhoFindsNoPlaceIsClosedAlone) {
  open({.stored = 1 << 20, .buffered = 1 << 20, .clients = 2});
  auto first = adopted(hello_);
  const auto second = adopted(hello_);
  ASSERT_TRUE(served(*first) && served(*second));
  EXPECT_TRUE(adopted(hello_)->closed());
  EXPECT_TRUE(served(*first) && served(*second));
  first.reset();
  loop_->run_once(Deadline::in(10ms));
  EXPECT_TRUE(served(*adopted(hello_)));
}

class StoreOfARun : public AdoptingStore {
 protected:
  void open(const Limits& limits) {
    AdoptingStore::open(limits);
    server_->recognize_by(kSign);
  }
  std::unique_ptr<Peer> of_the_run(const std::string& machine) {
    auto peer = adopted(hello_ + asks_for(kSign), machine);
    EXPECT_TRUE(alongside(*loop_, [&] { return peer->receive(9) == text("x"); }));
    return peer;
  }
  // All of them have said what they have to.
  std::vector<std::unique_ptr<Peer>> flood(int count, const std::string& first, bool one_address) {
    std::vector<std::unique_ptr<Peer>> peers;
    for (int i = 0; i < count; ++i) {
      peers.push_back(adopted(first, one_address ? "192.0.2.1" : "192.0.2." + std::to_string(i)));
      loop_->run_once(Deadline::in({}));
    }
    return peers;
  }
  static std::string asks_for(const std::string& key) {
    return encode({Query::kCompareSet, {key}, {"x", ""}, 0});
  }
  const std::string kSign = "lockstep/probe/17";
};

// Idle, slow or half open, from one address or from many: they displace each other alone.
TEST_F(StoreOfARun, StrangersTakeNobodysPlace) {
  const std::string waits = encode({Query::kWait, {"/never"}, {}, 0});
  const std::string part = encode({Query::kSet, {"/k"}, {std::string(999, 'v')}, 0}).substr(0, 99);
  for (const bool one_address : {true, false})
    for (const std::string& first : {hello_, hello_ + waits, hello_ + part, hello_.substr(0, 3)}) {
      open({.stored = 1 << 20, .buffered = 1 << 20, .clients = 16});
      const auto here = adopted(hello_), there = of_the_run("10.0.0.2");
      const auto before = flood(100, first, one_address);
      std::vector<std::unique_ptr<Peer>> late;  // the run's own, until it has all places
      for (int i = 0; i < 4; ++i) {
        late.push_back(of_the_run("10.0.0.3"));
        late.push_back(adopted(hello_, "10.0.0.2"));
        late.push_back(adopted(hello_));
        const auto more = flood(20, first, one_address);
      }
      EXPECT_LE(server_->clients(), 16u);
      EXPECT_TRUE(served(*here) && served(*there));
      for (int i = 0; i < 2; ++i) late.push_back(adopted(hello_));
      for (const auto& peer : late) EXPECT_TRUE(served(*peer)) << one_address << first.size();
    }
}

TEST_F(StoreOfARun, AStrangerIsServedAsLongAsAnotherAddressHasMore) {
  open({.stored = 1 << 20, .buffered = 1 << 20, .clients = 16});
  const auto of_unknown_route = adopted(hello_, "10.0.1.2");
  ASSERT_TRUE(served(*of_unknown_route));
  for (const std::string& first : {hello_, hello_.substr(0, 3)}) flood(100, first, true);
  EXPECT_TRUE(served(*of_unknown_route));
}

TEST_F(StoreOfARun, WhoDoesNotKnowTheSignIsAStranger) {
  open({.stored = 1 << 20, .buffered = 1 << 20, .clients = 4});
  const auto guesses = adopted(hello_ + asks_for("lockstep/probe/18"), "10.0.0.2");
  const auto knows = of_the_run("10.0.0.3");
  server_->begin_anew();
  const auto still = adopted(hello_, "10.0.0.3"), not_yet = adopted(hello_, "10.0.0.2");
  EXPECT_TRUE(served(*still) && served(*not_yet));
  std::vector<std::unique_ptr<Peer>> own(3);
  for (auto& peer : own) peer = adopted(hello_);
  EXPECT_TRUE(closed(*not_yet));
  EXPECT_TRUE(served(*still));
}

// Half of what may be stored, and nothing of what is under way, is the run's alone.
TEST_F(StoreOfARun, StrangersLeaveMemoryToTheRun) {
  open({.stored = 1 << 20, .buffered = 256 << 10, .clients = 64});
  std::string log;
  const LogSink sink([&](std::string_view line) { log += line; });
  const auto set = [](const std::string& key) {
    return encode({Query::kSet, {key}, {std::string(100 << 10, 'v')}, 0});
  };
  const auto own = of_the_run("10.0.0.2");
  for (int i = 0; i < 20; ++i) {
    const auto greedy = adopted(hello_, "192.0.2.1");
    EXPECT_TRUE(alongside(*loop_, [&] {
      greedy->send(set("/strange/" + std::to_string(i)));
      return greedy->served() == (i < 5);
    })) << i;
  }
  EXPECT_NE(log.find("a connection from 192.0.2.1, no machine of this run's: the store is full"),
            std::string::npos)
      << log;
  EXPECT_TRUE(alongside(*loop_, [&] { return own->send(set("/own")) && own->served(); }));
  const std::string most = set("/k").substr(0, 100 << 10);
  EXPECT_TRUE(alongside(*loop_, [&] { return own->send(most); }));
  std::vector<std::unique_ptr<Peer>> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(adopted(hello_, "192.0.2." + std::to_string(i)));
    (void)alongside(*loop_, [&] { return slow.back()->send(most.substr(0, 60 << 10)); });
  }
  EXPECT_TRUE(
      alongside(*loop_, [&] { return own->send(set("/k").substr(most.size())) && own->served(); }));
}

TEST_F(AdoptingStore, GarbageClosesItsConnectionAlone) {
  const auto good = adopted(hello_);
  for (const std::string& bytes : {std::string("LOCKSTEP"), std::string(5, '\0')})
    EXPECT_TRUE(closed(*adopted(bytes)));
  EXPECT_TRUE(served(*good));
  // Its sending takes longer than one socket's buffer.
  const auto large = adopted(hello_);
  large->send(encode({Query::kSet, {"/k"}, {std::string(64 << 10, 'v')}, 0}));
  EXPECT_TRUE(served(*large));
}

}  // namespace
}  // namespace lockstep::store
