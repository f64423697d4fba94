#include "hosts_processes.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/port.h"

namespace lockstep::launcher {

using namespace std::chrono_literals;

namespace {

links::Party party_of(std::uint32_t host) {
  return {1, {static_cast<std::uint16_t>(host), 1}, host + 10U};
}

links::Cookie cookie_of(std::uint32_t one, std::uint32_t other, bool mistaken) {
  links::Cookie cookie{};
  cookie[0] = std::byte(std::min(one, other));
  cookie[1] = std::byte(std::max(one, other));
  cookie[31] = std::byte(mistaken ? 1 : 0);
  return cookie;
}

}  // namespace

int Machines::Host::port() const { return port_of(listener.get()); }

Machines::Machines(const Shape& shape, std::vector<Fault> faults)
    : shape_(shape),
      faults_(std::move(faults)),
      loop_(Loop::open().value()),
      timers_(control::Timers::open(loop_).value()) {
  std::vector<link::HostIndex> set;
  for (std::uint32_t h = 0; h < shape.workers.size(); ++h)
    set.push_back(static_cast<link::HostIndex>(h));
  for (const link::HostIndex h : set) {
    auto made = std::make_unique<Host>(h, party_of(h).stay, set);
    Host& host = *made;
    host.link = std::make_unique<LinkProcess>(
        loop_, *timers_,
        LinkProcess::Events{[&, this](const carrier::Closed& closed) { on_closed(host, closed); },
                            [&](const carrier::Working& now) { host.working = now.hosts; },
                            [&](const carrier::Line& line) { host.lines.push_back(line.text); },
                            [&, this](const std::string& why) { on_gone(host, why); }});
    hosts_.push_back(std::move(made));
  }
}

Machines::~Machines() {
  for (const auto& host : hosts_)
    if (host->workers) host->workers->await();
}

Machines::Host::Host(std::uint32_t number, link::Stay stay, const std::vector<link::HostIndex>& set)
    : index(number),
      board(SharedBoard::make().value()),
      listener(listen_for_links(control::Address::numeric("127.0.0.1", 0), 0, false).value()),
      rounds(stay, set) {
  board.view().header().hosts.store(set.size());
}

void Machines::start_link(Host& host) {
  LinkProcess::Plan plan;
  plan.program = LOCKSTEP_LINK;
  plan.board = host.board.fd();
  plan.listener = host.listener.get();
  plan.self = party_of(host.index);
  plan.stop_grace = host.stop_grace;
  const Status started = host.link->start(plan);
  EXPECT_TRUE(started.ok()) << started.error().message;
}

void Machines::start_links() {
  for (const auto& host : hosts_) {
    order(host->index);
    start_link(*host);
  }
}

void Machines::make_workers() {
  std::vector<link::Stay> stays;
  for (const auto& host : hosts_) {
    std::byte* const memory = host->board.view().base();
    host->workers = std::make_unique<conformance::HostWorkers>(shape_, faults_, host->index, memory,
                                                               coord::kBoardBytes);
    stays.push_back(host->workers->stay());
    host->memory = carrier::BoardMemory::open(memory, coord::kBoardBytes, stays.back());
    ASSERT_NE(host->memory, nullptr);
  }
  leader_ = std::make_unique<link::RoundKeeper>(hosts_[0]->memory->plan(), 1, stays);
  coord::Table first = conformance::first_table(shape_);
  std::erase_if(first.members,
                [this](const auto& one) { return coord::stay_of(one.uid).host == comes; });
  std::erase_if(first.hosts, [this](const auto& one) { return one.stay.host == comes; });
  coord::write_table(hosts_[0]->workers->board().table(Txn(0)), first);
  ring(hosts_[0]->memory->bell());
}

void Machines::start_workers() {
  if (!leader_) make_workers();
  for (const auto& host : hosts_) host->workers->start();
}

void Machines::stop_before(std::uint64_t txn) {
  for (const auto& host : hosts_) host->workers->stop_before(txn);
}

void Machines::order(std::uint32_t index) {
  std::vector<links::Other> others;
  for (const auto& other : hosts_)
    if (other->index != index)
      others.push_back({party_of(other->index),
                        control::Address::numeric("127.0.0.1", other->port()),
                        cookie_of(index, other->index, mistaken == index)});
  hosts_[index]->link->obey(hosts_[index]->rounds.orders(), others);
}

void Machines::on_closed(Host& host, const carrier::Closed& closed) {
  if (!host.memory) return;
  host.memory->look();
  const auto answer = host.rounds.answer(*host.memory, host.memory->plan(), closed.round);
  if (!answer || !leader_->hear(*answer) || !leader_->is_answered()) return;
  for (const link::Fills& fills : leader_->fills()) {
    fills_ += fills.send.size();
    EXPECT_TRUE(hosts_[fills.host]->rounds.hear(fills));
    order(fills.host);
  }
}

void Machines::on_gone(Host& host, const std::string& why) {
  host.ends.push_back(why);
  host.working.clear();
  if (!host.is_lost) start_link(host);
}

void Machines::append(Host& host) {
  host.memory->look();
  const auto append = host.rounds.append(*host.memory);
  if (!append) return;
  std::vector<WorkerUid> deaths;
  for (const link::Stay stay : append->hosts) deaths.push_back(coord::death_of(stay));
  host.workers->append(deaths);
  leader_->hear(append->told);
}

bool Machines::serve(const std::function<bool()>& done) {
  for (const Deadline end = Deadline::in(20s); !end.passed();) {
    if (done()) return true;
    loop_.run_once(Deadline::in(1ms));
    while (const auto event = next_child_event())
      for (const auto& host : hosts_)
        if (host->link->event(*event)) break;
    for (const auto& host : hosts_)
      if (host->memory && !host->is_lost) append(*host);
  }
  return done();
}

void Machines::lose(std::uint32_t index) {
  Host& lost = *hosts_[index];
  lost.workers->await();
  lost.is_lost = true;
  ::kill(lost.link->pid(), SIGKILL);
  leader_->lose_host(lost.workers->stay());
  for (const link::HostIndex h : leader_->round().set) {
    EXPECT_TRUE(hosts_[h]->rounds.hear(leader_->round()));
    order(h);
  }
  EXPECT_TRUE(serve([this] { return leader_->round().out.empty(); })) << "no round ends";
}

void Machines::finish() {
  std::vector<const carrier::BoardMemory*> live;
  for (const auto& host : hosts_) {
    if (host->is_lost) continue;
    EXPECT_TRUE(serve([&] { return host->memory->first_not_whole() == shape_.transactions; }))
        << "host " << host->index << " stands in t" << host->memory->first_not_whole();
    live.push_back(host->memory.get());
  }
  for (const auto& host : hosts_) host->workers->await();
  conformance::check_boards(shape_, live);
}

}  // namespace lockstep::launcher
