#include "links/links.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "links/paired.h"
#include "links/tcp/dial.h"
#include "links/tcp/visitors.h"

namespace lockstep::links {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostTold = 64;  // addresses and reasons of those turned away
// For so long a host may dial that this one has not been told of yet.
constexpr auto kEarly = 2s;
// The kernel asks for more when less than this is left to be sent: a ping never waits behind more.
constexpr int kUnsentInKernel = 256 * 1024;

void set_up(int socket, const Limits& limits) {
  const int on = 1, low = kUnsentInKernel;
  const auto patience = static_cast<unsigned>(limits.silence.count());
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low, sizeof low);
  // What is left in the kernel after close() is not sent for ever.
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

// `from`: this end's address, any port.
Pair::Place dialling(Pair::Place place, const std::optional<control::Address>& from) {
  place.dial = [&loop = place.loop, &timers = place.timers, self = place.self,
                limits = place.limits, from](const Other& other, Packets packets, Dialled done) {
    return std::shared_ptr<Dial>(
        Dial::start(loop, timers, from, self, other, packets, limits.silence,
                    [limits, done = std::move(done)](UniqueFd socket, const Failure& failure) {
                      if (socket) set_up(socket.get(), limits);
                      done(std::move(socket), failure);
                    }));
  };
  return place;
}

class TcpLinks : public PairedLinks {
 public:
  TcpLinks(Pair::Place place, const std::optional<control::Address>& from)
      : PairedLinks(dialling(std::move(place), from)) {}

  Status listen(UniqueFd listener) {
    Visitors::Events events;
    events.said = [this](const Hello& hello, const std::string& from) {
      return answer_to(hello, from);
    };
    events.let_in = [this](UniqueFd socket, const Hello& hello) {
      let_in(std::move(socket), hello);
    };
    events.turned_away = [this](const std::string& from, const std::string& why) {
      turn_away(from, why);
    };
    auto made = Visitors::open(place().loop, place().timers, std::move(listener), place().limits,
                               std::move(events));
    if (!made.ok()) return made.error();
    visitors_ = *std::move(made);
    return {};
  }

 private:
  void look() override {
    if (visitors_) visitors_->look();
    std::erase_if(early_, [this](const auto& entry) {
      const auto& [host, early] = entry;
      if (pair_of(host)) return true;
      if (!early.until.passed()) return false;
      turn_away(early.from, "no connection is wanted with node " + std::to_string(host) + " now");
      return true;
    });
  }

  std::optional<Visitors::Answer> answer_to(const Hello& hello, const std::string& from) {
    const auto pair = pair_of(hello.from.stay.host);
    if (!pair) {
      if (early_.size() < kMostTold)
        early_.try_emplace(hello.from.stay.host, Early{from, Deadline::in(kEarly)});
      return std::nullopt;
    }
    if (const std::string why = why_not(hello, place().self, pair->other()); !why.empty()) {
      turn_away(from, why);
      return std::nullopt;
    }
    const std::string said = encode(hello);
    const std::string own = encode({place().self, hello.from, draw_nonce()});
    const Cookie& cookie = pair->other().cookie;
    return Visitors::Answer{own + proof_of(cookie, End::kListens, said, own),
                            proof_of(cookie, End::kDials, said, own)};
  }

  // Who is wanted may be another one by now.
  void let_in(UniqueFd socket, const Hello& hello) {
    const auto pair = pair_of(hello.from.stay.host);  // an event may abort it
    if (!pair || !why_not(hello, place().self, pair->other()).empty()) return;
    set_up(socket.get(), place().limits);
    pair->adopt(std::move(socket));
  }

  void turn_away(const std::string& from, const std::string& why) {
    if (told_.size() >= kMostTold || !told_.emplace(from, why).second) return;
    place().events.turned_away(from + ": " + why);
  }

  struct Early {
    std::string from;
    Deadline until;
  };

  std::unique_ptr<Visitors> visitors_;
  std::map<HostIndex, Early> early_;
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace

Result<std::unique_ptr<Links>> make_tcp_links(Loop& loop, control::Timers& timers,
                                              UniqueFd listener, const Party& self, Limits limits,
                                              Events& events) {
  std::optional<control::Address> from = control::Address::local_of(listener.get());
  if (from) from = control::Address::numeric(from->host(), 0);
  if (from && !control::kind_of_no_machine(*from).empty()) from.reset();
  auto links =
      std::make_unique<TcpLinks>(Pair::Place{loop, timers, self, limits, events, {}}, from);
  LOCKSTEP_TRY(links->listen(std::move(listener)));
  return std::unique_ptr<Links>(std::move(links));
}

}  // namespace lockstep::links
