// A store whose clients are handed in by somebody else.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::unique_ptr<Peer> adopted(const std::string& first) {
    auto peer = std::make_unique<Peer>(port_of(door_.get()), false);
    peer->send(first);
    server_->adopt(UniqueFd(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
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
