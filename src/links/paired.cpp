#include "links/paired.h"

#include <utility>

namespace lockstep::links {
namespace {

bool is_same(const Other& one, const Other& other) {
  return one.party == other.party && one.cookie == other.cookie && one.address == other.address;
}

}  // namespace

PairedLinks::PairedLinks(Pair::Place place) : place_(std::move(place)) { tick_later(); }

void PairedLinks::tick_later() {
  tick_ = place_.timers.in(place_.limits.ping / 2, [this] { tick(); });
}

void PairedLinks::open(const Other& other) {
  const HostIndex host = other.party.stay.host;
  const auto pair = pair_of(host);
  if (pair && is_same(pair->other(), other)) return;
  abort(host);
  pairs_.emplace(host, std::make_shared<Pair>(place_, other));
}

void PairedLinks::abort(HostIndex host) {
  const auto found = pairs_.find(host);
  if (found == pairs_.end()) return;
  found->second->close();
  pairs_.erase(found);
}

void PairedLinks::send(HostIndex host, std::string_view header, std::span<const std::byte> body) {
  if (Stream* stream = stream_of(host)) stream->send(header, body);
}

void PairedLinks::send_copy(HostIndex host, std::string_view header, std::string body) {
  if (Stream* stream = stream_of(host)) stream->send_copy(header, std::move(body));
}

std::size_t PairedLinks::unsent(HostIndex host) const {
  const Stream* stream = stream_of(host);
  return stream == nullptr ? 0 : stream->unsent();
}

std::shared_ptr<Pair> PairedLinks::pair_of(HostIndex host) const {
  const auto found = pairs_.find(host);
  return found == pairs_.end() ? nullptr : found->second;
}

Stream* PairedLinks::stream_of(HostIndex host) const {
  const auto found = pairs_.find(host);
  return found == pairs_.end() ? nullptr : found->second->stream();
}

void PairedLinks::tick() {
  tick_later();
  look();
  const auto pairs = pairs_;  // an event may abort some
  for (const auto& [host, pair] : pairs) pair->tick();
}

}  // namespace lockstep::links
