// Links and the network between them: frames that take time on both sides, connections that break
// and are made again.
#include <algorithm>
#include <utility>

#include "hosts.h"

namespace lockstep::simulation {
namespace {

// Rules switched off on purpose.
class PlantedPair : public link::Pair {
 public:
  PlantedPair(coord::Stay self, coord::Stay other, Planted planted)
      : Pair(self, other), planted_(planted) {}

 protected:
  bool serves(const link::Marks& marks, const coord::Table& table) const override {
    return planted_ == Planted::kSendToOut || Pair::serves(marks, table);
  }
  bool has_table(std::uint64_t txn) const override {
    return planted_ == Planted::kNoGuard || planted_ == Planted::kScope2 || Pair::has_table(txn);
  }

 private:
  Planted planted_;
};

}  // namespace

std::unique_ptr<link::Pair> planted_pair(coord::Stay self, coord::Stay other, Planted planted) {
  return std::make_unique<PlantedPair>(self, other, planted);
}

bool Hosts::send(std::size_t from, std::size_t to) {
  Host& host = hosts_[from];
  if (!connected(from, to) || host.paused || host.link_paused) return false;
  Direction& direction = way(from, to);
  if (!direction.flight.empty() && direction.flight.back().state == Frame::kSending) {
    Frame& frame = direction.flight.back();
    frame.state = Frame::kFlying;
    const bool whole = std::ranges::all_of(frame.read, [](const auto& one) {
      return one.first->value == one.second && !one.first->writing;
    });
    if (!whole) {
      frame.value = kTorn;
      see("torn frames");
    }
    return true;
  }
  if (direction.flight.size() >= trouble_.shape.depth) return false;
  const std::uint64_t now = host.board->version() + direction.changed;
  if (direction.idle_at == now) return false;
  const std::vector<Item> items = direction.pair->sendable(*host.board, *host.owners);
  if (items.empty()) {
    direction.idle_at = now;
    return false;
  }
  const std::size_t last = items.size() - 1;
  const std::size_t picked = direction.taste == Taste::kFirst  ? 0
                             : direction.taste == Taste::kLast ? last
                                                               : random_.between(0, last);
  Frame frame{.have = {}, .item = items[picked], .table = {}};
  frame.value = host.board->value(frame.item);
  for (const Cell* cell : host.board->sources(frame.item)) {
    frame.read.emplace_back(cell, cell->value);
    if (cell->writing) frame.value = kTorn;
  }
  if (frame.item.kind == Kind::kTable) {
    frame.table = *host.board->table(frame.item.txn.value());
    const coord::Table* made =
        frame.item.txn.value() == 0 ? nullptr : host.board->table(frame.item.txn.value() - 1);
    if (made != nullptr &&
        host.owners->at(*host.board, link::made_in(frame.item)).owner(frame.item) != host.stay)
      see("tables of others");
  }
  if (frame.item.kind == Kind::kNode && frame.item.level > 0) see("folded nodes");
  direction.pair->sent(frame.item);
  ++direction.changed;
  note([&] {
    return "link " + std::to_string(from) + "->" + std::to_string(to) + " begins to send " +
           name(frame.item);
  });
  direction.flight.push_back(std::move(frame));
  return true;
}

bool Hosts::receive(std::size_t from, std::size_t to) {
  Host& host = hosts_[to];
  if (!connected(to, from) || host.paused || host.link_paused) return false;
  Direction& direction = way(from, to);
  if (direction.blocked || direction.flight.empty()) return false;
  Frame& frame = direction.flight.front();
  if (frame.state == Frame::kSending) return false;
  if (frame.have) {
    Direction& back = way(to, from);
    back.pair->open(*frame.have);
    ++back.changed;
    direction.flight.pop_front();
    return true;
  }
  land(from, to, frame);
  if (frame.state == Frame::kFlying) {  // into the bin, or it has landed
    direction.flight.pop_front();
  } else if (frame.state == Frame::kAside) {
    see("frames put aside");
    direction.aside.push_back(std::move(frame));
    direction.flight.pop_front();
  }
  return true;
}

bool Hosts::settle_aside(std::size_t from, std::size_t to) {
  const Host& host = hosts_[to];
  std::vector<Frame>& aside = way(from, to).aside;
  if (aside.empty() || host.paused || host.link_paused) return false;
  const std::size_t i = random_.between(0, aside.size() - 1);
  const Frame::State before = aside[i].state;
  land(from, to, aside[i]);
  if (aside[i].state == Frame::kFlying) aside.erase(aside.begin() + static_cast<std::ptrdiff_t>(i));
  return aside.empty() || i >= aside.size() || aside[i].state != before;
}

// Begins or ends its landing; afterwards kFlying: it is done with.
void Hosts::land(std::size_t from, std::size_t to, Frame& frame) {
  Host& host = hosts_[to];
  if (frame.state == Frame::kLanding) {
    end_write(to, frame.item, frame.value,
              frame.item.kind == Kind::kTable ? &frame.table : nullptr);
    host.landings.end(frame.item);
    frame.state = Frame::kFlying;
    return landed(from, to, frame);
  }
  using Fate = link::Landings::Fate;
  Fate fate = host.landings.begin(*host.board, frame.item, static_cast<link::HostIndex>(from));
  if (fate == Fate::kAside && trouble_.planted == Planted::kNoExclusion) fate = Fate::kLands;
  if (fate == Fate::kLands) {
    note([&] {
      return "host " + std::to_string(to) + ": " + name(frame.item) + " from host " +
             std::to_string(from) + " begins to land";
    });
    begin_write(to, frame.item, "a landing from host " + std::to_string(from));
    frame.state = Frame::kLanding;
  } else if (fate == Fate::kAside) {
    frame.state = Frame::kAside;
  } else {
    note([&] {
      return "host " + std::to_string(to) + ": " + name(frame.item) + " from host " +
             std::to_string(from) + " goes into the bin";
    });
    see("frames into the bin");
    frame.state = Frame::kFlying;
    landed(from, to, frame);
  }
}

void Hosts::landed(std::size_t from, std::size_t to, const Frame& frame) {
  if (frame.item.kind != Kind::kTable) return;
  Direction& back = way(to, from);
  back.pair->came(frame.item);
  ++back.changed;
}

// The transaction at whose start a newcomer's state is, as the links know that send to it.
std::optional<std::uint64_t> Hosts::coming(std::size_t host) const {
  if (!outside(host)) return {};
  const Worker& worker = workers_[hosts_[host].workers[0]];
  if (!worker.has_image) return {};
  return worker.txn;
}

// Also the other end notices that one is closed; until then it reads on.
bool Hosts::make(std::size_t a, std::size_t b) {
  for (const auto& [at, other] : {std::pair(a, b), std::pair(b, a)})
    if (connected(at, other) && !connected(other, at) && hosts_[at].alive && !hosts_[at].paused &&
        !hosts_[at].link_paused) {
      close_end(at, other);
      return true;
    }
  if (connected(a, b) || cut_[a * hosts_.size() + b] || way(a, b).blocked || way(b, a).blocked)
    return false;
  for (const auto& [at, other] : {std::pair(a, b), std::pair(b, a)}) {
    const Host& host = hosts_[at];
    if (!host.alive || !host.link_alive || host.paused || host.link_paused) return false;
    if (link::contains(host.orders.closed, hosts_[other].stay.host)) return false;
  }
  note([&] { return "pair " + std::to_string(a) + "-" + std::to_string(b) + " is made"; });
  for (const auto& [at, other] : {std::pair(a, b), std::pair(b, a)}) {
    ends_[at * hosts_.size() + other] = 1;
    Direction& direction = way(at, other);
    direction.pair->obey(trouble_.planted == Planted::kFillsLost
                             ? link::Orders{.closed = {}, .out = hosts_[at].orders.out, .fills = {}}
                             : hosts_[at].orders);
    direction.pair->comes(coming(other));
    const Frame have{.state = Frame::kFlying,
                     .have = link::have_of(*hosts_[at].board, plan_),
                     .item = {},
                     .table = {}};
    direction.flight.assign(1, have);
    direction.aside.clear();
    ++direction.changed;
  }
  return true;
}

void Hosts::lose(std::size_t from, std::size_t to) {
  Direction& direction = way(from, to);
  const auto drop = [&](const Frame& frame) {
    if (frame.state != Frame::kLanding || frame.have) return;
    hosts_[to].board->cell(frame.item).writing = false;
    see("landings dropped");
  };
  for (const Frame& frame : direction.flight) drop(frame);
  for (const Frame& frame : direction.aside) drop(frame);
  direction.flight.clear();
  direction.aside.clear();
  hosts_[to].landings.drop(static_cast<link::HostIndex>(from));
}

// What it has sent may still arrive.
void Hosts::close_end(std::size_t at, std::size_t other) {
  if (!connected(at, other)) return;
  ends_[at * hosts_.size() + other] = 0;
  lose(other, at);
  Direction& direction = way(at, other);
  direction.pair->close();
  ++direction.changed;
  std::deque<Frame>& flight = direction.flight;
  if (!flight.empty() && flight.back().state == Frame::kSending) flight.pop_back();
  if (!connected(other, at)) lose(at, other);
}

bool Hosts::obey(std::size_t index) {
  Host& host = hosts_[index];
  if (!host.alive || !host.link_alive || host.paused || host.link_paused) return false;
  const link::Orders& orders = host.rounds->orders();
  if (orders.round == host.told.round && orders.closed == host.told.closed &&
      orders.fills == host.told.fills)
    return false;
  host.told = orders;
  note([&] {
    return "link of host " + std::to_string(index) + " closes and fills as its agent says";
  });
  const auto closed = std::exchange(host.orders, orders).closed;
  if (trouble_.planted == Planted::kPairStays) {
    for (const link::HostIndex other : closed)
      if (!link::contains(host.orders.closed, other)) host.orders.closed.push_back(other);
  }
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    if (other == index) continue;
    if (link::contains(host.orders.closed, hosts_[other].stay.host)) close_end(index, other);
    Direction& direction = way(index, other);
    direction.pair->obey(host.orders);
    ++direction.changed;
  }
  return true;
}

void Hosts::start_link(std::size_t index) {
  Host& host = hosts_[index];
  note([&] { return "the link of host " + std::to_string(index) + " is started again"; });
  host.link_alive = true;
  host.landings = {};
  const bool forgets = trouble_.planted == Planted::kLinkForgets;
  host.orders = host.told = host.rounds->orders();
  if (forgets) host.orders = {.round = host.orders.round, .closed = {}, .out = {}, .fills = {}};
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    if (other == index) continue;
    Direction& direction = way(index, other);
    direction.pair = planted_pair(host.stay, hosts_[other].stay, trouble_.planted);
    direction.pair->obey(host.orders);
    ++direction.changed;
  }
}

}  // namespace lockstep::simulation
