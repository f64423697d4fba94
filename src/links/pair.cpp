#include "links/pair.h"

#include <algorithm>
#include <utility>

#include "control/address.h"

namespace lockstep::links {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirstPause = 20ms, kLongestPause = 1s;
// A stream that lived so long was a good one: the next is dialled at once.
constexpr auto kGoodLife = 1s;

}  // namespace

Pair::Pair(const Place& place, const Other& other) : place_(place), other_(other) {
  if (dials()) dial_in(0ms);
}

void Pair::close() {
  closed_ = true;
  again_.cancel();
  dial_.reset();
  if (const auto stream = std::exchange(stream_, nullptr)) stream->close();
}

void Pair::dial_in(std::chrono::milliseconds time) {
  again_ = place_.timers.in(time, [this] { dial(); });
}

void Pair::dial() {
  const Packets packets = told_ == Cause::kLargeLost ? Packets::kSmall : Packets::kAny;
  dial_ = place_.dial(other_, packets, [this](UniqueFd socket, const Failure& failure) {
    dial_.reset();
    if (socket) return begin(std::move(socket));
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    dial_in(pause_);
    if (std::exchange(told_, failure.cause) != failure.cause) place_.events.cannot(host(), failure);
  });
}

// The newest counts: whoever dials anew has lost the one before.
void Pair::adopt(UniqueFd socket) {
  if (const auto old = std::exchange(stream_, nullptr)) {
    old->close();
    place_.events.down(
        host(), {Cause::kReplaced, "node " + std::to_string(host()) + " has connected anew"});
  }
  if (!closed_) begin(std::move(socket));
}

void Pair::begin(UniqueFd socket) {
  std::string name = "node " + std::to_string(host());
  if (const auto remote = control::Address::remote_of(socket.get()))
    name += " (" + remote->text() + ")";
  told_.reset();
  stream_ = Stream::start(place_.loop, std::move(socket), std::move(name), place_.limits, *this);
  place_.events.up(host());
}

void Pair::ended(const Failure& failure) {
  const auto old = std::exchange(stream_, nullptr);
  const bool was_good = Deadline::Clock::now() - old->began() >= kGoodLife;
  if (dials()) {
    pause_ = was_good ? 0ms : std::clamp(2 * pause_, kFirstPause, kLongestPause);
    dial_in(pause_);
  }
  place_.events.down(host(), failure);
}

}  // namespace lockstep::links
