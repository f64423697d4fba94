#include "carrier/carrier.h"

#include <algorithm>

namespace lockstep::carrier {

using links::Failure;

void Carrier::obey(const link::Orders& orders, const std::vector<links::Other>& others) {
  orders_ = orders;
  std::vector<HostIndex> wanted;
  for (const links::Other& other : others) {
    const HostIndex host = other.party.stay.host;
    if (host == self_.host || link::contains(orders.closed, host)) continue;
    wanted.push_back(host);
    auto& way = ways_[host];
    if (way && way->stay != other.party.stay) close(host);
    if (!way) way = std::make_unique<Way>(self_, other.party.stay);
    way->outlet.obey(orders);
    links_->open(other);
  }
  for (const auto& [host, way] : ways_)
    if (way && !link::contains(wanted, host)) close(host);
  std::erase_if(ways_, [](const auto& one) { return one.second == nullptr; });
  changed_ = true;
  settle();
}

void Carrier::close(HostIndex host) {
  links_->abort(host);
  landings_.drop(host);
  ways_[host].reset();
}

std::vector<HostIndex> Carrier::working() const {
  std::vector<HostIndex> hosts;
  for (const auto& [host, way] : ways_)
    if (links_->is_up(host)) hosts.push_back(host);
  return hosts;
}

void Carrier::attend() {
  if (!std::exchange(changed_, false)) return;
  memory_.look();
  // A newcomer's board begins where its state is, once it has one.
  for (const auto& [host, way] : ways_) {
    if (!links_->is_up(host)) continue;
    if (memory_.first() != way->told_first) send_have(host);
    way->outlet.send(*links_, memory_, owners_);
  }
}

void Carrier::send_have(HostIndex host) {
  link::Have have = link::have_of(memory_, plan_);
  auto text = link::encode(have);
  if (!text.ok()) {  // what it does not tell comes once more, and goes into the bin
    have.marked.clear();
    text = link::encode(have);
  }
  ways_.at(host)->told_first = have.first;
  links_->send_copy(host, link::encode(link::FrameHead{}), *std::move(text));
}

void Carrier::up(HostIndex host) {
  Way& way = *ways_.at(host);
  way.inlet.close();
  way.outlet.close();
  send_have(host);
}

Result<std::optional<std::span<std::byte>>> Carrier::landing(HostIndex host,
                                                             std::string_view header,
                                                             std::size_t bytes) {
  return ways_.at(host)->inlet.landing({plan_, memory_, landings_}, host, header, bytes);
}

Status Carrier::landed(HostIndex host, std::string_view /*header*/) {
  Way& way = *ways_.at(host);
  const auto come = way.inlet.landed({plan_, memory_, landings_});
  if (!come.ok()) return come.error();
  if (come->have) {
    way.outlet.open(*come->have);
    changed_ = true;
  }
  const auto is_of = [&](link::Kind kind) { return come->item && come->item->kind == kind; };
  if (is_of(link::Kind::kTable) || is_of(link::Kind::kJudged)) way.outlet.came(*come->item);
  // A table lets items go, with a copy of the state a newcomer's board begins; and what has just
  // come may be what another host waits for.
  if (is_of(link::Kind::kTable) || is_of(link::Kind::kImage) || !orders_.fills.empty())
    changed_ = true;
  settle();
  return {};
}

void Carrier::settle() {
  const Inlet::Board board{plan_, memory_, landings_};
  for (bool again = true; again;) {
    again = false;
    for (const auto& [host, way] : ways_)
      if (way) again = way->inlet.settle(board, host) || again;
  }
}

void Carrier::room(HostIndex host) { ways_.at(host)->outlet.send(*links_, memory_, owners_); }

void Carrier::down(HostIndex host, const Failure& failure) {
  Way& way = *ways_.at(host);
  way.outlet.close();
  way.inlet.close();
  landings_.drop(host);
  tell_({"link: " + failure.text, failure.cause == links::Cause::kGone});
  settle();
}

void Carrier::cannot(HostIndex /*host*/, const Failure& failure) {
  tell_({"link: " + failure.text});
}

}  // namespace lockstep::carrier
