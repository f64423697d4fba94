#include "links/fake/links.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "links/paired.h"

namespace lockstep::links {
namespace {

constexpr int kSocketBytes = 16 * 1024;

std::array<UniqueFd, 2> connected() {
  int sockets[2] = {-1, -1};
  (void)::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets);
  for (const int socket : sockets)
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
  return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
}

}  // namespace

class FakeLinks : public PairedLinks {
 public:
  FakeLinks(FakeNetwork& network, Pair::Place place)
      : PairedLinks(dialling(network, std::move(place))), network_(network) {
    network_.links_[this->place().self.stay.host] = this;
  }
  ~FakeLinks() override { network_.links_.erase(place().self.stay.host); }

 private:
  static Pair::Place dialling(FakeNetwork& network, Pair::Place place) {
    place.dial = [&network, self = place.self](const Other& other, Packets, Dialled done) {
      return std::make_shared<control::Timers::Timer>(network.timers_.in(
          std::chrono::milliseconds(0), [&network, self, other, done = std::move(done)] {
            connect(network, self, other, done);
          }));
    };
    return place;
  }

  static void connect(FakeNetwork& network, const Party& self, const Other& other,
                      const Dialled& done) {
    const HostIndex host = other.party.stay.host;
    const auto found = network.links_.find(host);
    if (found == network.links_.end()) return done({}, {Cause::kRefused, "nobody is there"});
    const auto pair = found->second->pair_of(self.stay.host);
    if (!pair) return done({}, {Cause::kTurnedAway, "it expects nobody"});
    if (found->second->place().self != other.party || pair->other().party != self ||
        pair->other().cookie != other.cookie)
      return done({}, {Cause::kTurnedAway, "it expects somebody else"});
    auto [here, near] = connected();
    auto [there, far] = connected();
    network.relays_[FakeNetwork::key(self.stay.host, host)] =
        std::make_unique<Relay>(network.loop_, std::move(near), std::move(far));
    // An event of the one may close the other: a pair that is closed adopts nothing, and a dial
    // that is given up must not be done.
    done(std::move(here), {});
    pair->adopt(std::move(there));
  }

  FakeNetwork& network_;
};

std::unique_ptr<Links> FakeNetwork::make(const Party& self, Limits limits, Events& events) {
  return std::make_unique<FakeLinks>(*this, Pair::Place{loop_, timers_, self, limits, events, {}});
}

Relay* FakeNetwork::relay(HostIndex one, HostIndex other) const {
  const auto found = relays_.find(key(one, other));
  return found == relays_.end() ? nullptr : found->second.get();
}

}  // namespace lockstep::links
