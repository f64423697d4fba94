#include "hosts.h"

#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "link/round_keeper.h"

namespace lockstep::carrier {

using namespace std::chrono_literals;

Machines::Machines(const Shape& shape, std::vector<Fault> faults)
    : shape_(shape), faults_(std::move(faults)) {
  for (std::uint32_t h = 0; h < shape.workers.size(); ++h)
    hosts_.push_back(std::make_unique<Host>(*this, h));
}

Machines::~Machines() {
  for (const auto& host : hosts_) host->workers().await();
  for (const auto& host : hosts_) host->kill_link();
}

void Machines::go() {
  coord::write_table(hosts_[0]->workers().board().table(Txn(0)), conformance::first_table(shape_));
  for (const auto& host : hosts_) host->start();
  std::vector<link::Stay> stays;
  for (const auto& host : hosts_) stays.push_back(host->stay());
  link::RoundKeeper leader(hosts_[0]->memory().plan(), 1, stays);
  for (const Fault& fault : faults_) {
    if (fault.worker) continue;
    Host& host = *hosts_[fault.host];
    host.workers().await();
    host.call([] {});  // what they have left is sent
    host.kill_link();
    leader.lose_host(host.stay());
    take_out(leader);
  }
  for (const auto& host : hosts_) host->workers().await();
  std::vector<const BoardMemory*> live;
  for (const link::HostIndex h : leader.round().set) {
    hosts_[h]->kill_link();
    live.push_back(&hosts_[h]->memory());
  }
  conformance::check_boards(shape_, live);
}

void Machines::take_out(link::RoundKeeper& leader) {
  const link::Round round = leader.round();
  for (const link::HostIndex h : round.set) {
    Host& host = *hosts_[h];
    host.call([&] {
      EXPECT_TRUE(host.rounds().hear(round));
      host.obey();
      const auto answer =
          host.rounds().answer(host.memory(), host.memory().plan(), host.rounds().orders().round);
      ASSERT_TRUE(answer);
      leader.hear(*answer);
    });
  }
  ASSERT_TRUE(leader.is_answered());
  for (const link::Fills& fills : leader.fills()) {
    fills_ += fills.send.size();
    Host& host = *hosts_[fills.host];
    host.call([&] {
      EXPECT_TRUE(host.rounds().hear(fills));
      host.obey();
    });
  }
  for (const link::HostIndex h : round.set) leader.hear(hosts_[h]->await_append());
  EXPECT_TRUE(leader.round().out.empty());
}

Host::Host(Machines& run, std::uint32_t index)
    : machines_(run), index_(index), bytes_(conformance::board_bytes_of(run.shape_)) {
  map_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  EXPECT_NE(map_, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(map_);
  workers_ = std::make_unique<HostWorkers>(run.shape_, run.faults_, index, memory, bytes_);
  memory_ = BoardMemory::open(memory, bytes_, stay());
  owners_ = std::make_unique<link::BoardOwners>(memory_->plan());
  std::vector<link::HostIndex> set;
  for (std::uint32_t h = 0; h < run.shape_.workers.size(); ++h) {
    set.push_back(static_cast<link::HostIndex>(h));
    ways_.push_back(
        {std::make_unique<link::Pair>(stay(), link::Stay{static_cast<std::uint16_t>(h), 1})});
  }
  rounds_ = std::make_unique<link::HostRounds>(stay(), set);
}

Host::~Host() {
  workers_->await();
  kill_link();
  ::munmap(map_, bytes_);
}

void Host::start() {
  for (std::uint32_t other = 0; other < ways_.size(); ++other)
    if (other != index_)
      machines_.hosts_[other]->deliver(
          index_, {link::have_of(*memory_, memory_->plan()), {}, 0, {}, std::nullopt});
  link_ = std::thread([this] { serve(); });
  workers_->start();
}

void Host::kill_link() {
  link_ends_ = true;
  ring(memory_->bell());
  if (link_.joinable()) link_.join();
}

void Host::call(const std::function<void()>& what) {
  std::atomic<bool> done{false};
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back([&] {
      what();
      done = true;
      done.notify_all();
    });
  }
  ring(memory_->bell());
  done.wait(false);
}

void Host::deliver(std::uint32_t from, Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.emplace_back(from, std::move(frame));
  }
  ring(memory_->bell());
}

link::Appended Host::await_append() {
  std::optional<link::Appended> told;
  for (const Deadline deadline = conformance::soon(); !told && !deadline.passed();) {
    call([&] { told = std::exchange(appended_, std::nullopt); });
    std::this_thread::sleep_for(100us);
  }
  EXPECT_TRUE(told) << "host " << index_ << " never has its fills";
  return told.value_or(link::Appended{});
}

}  // namespace lockstep::carrier
