#include "cluster.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "allocated.h"
#include "host.h"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kLimit = 3 * kSecond;  // L

double cpu_now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

ControlCluster::ControlCluster(std::size_t hosts)
    : workers_(hosts, 1), boards_(static_cast<std::uint32_t>(hosts)) {
  config_.workers = static_cast<std::uint32_t>(hosts);
  config_.zygote = false;
  config_.max_replacements = 1'000;
  for (std::size_t h = 0; h < hosts; ++h) add(h);
}

ControlCluster::~ControlCluster() = default;

ControlCluster::Host& ControlCluster::add(std::size_t index) {
  Host& host = *hosts_.emplace_back(std::make_unique<Host>());
  host.index = index;
  const auto self = static_cast<std::uint16_t>(index);
  const Stay stay{self, 1};
  std::vector<link::HostIndex> all;
  for (std::size_t h = 0; h < workers_.size(); ++h) all.push_back(static_cast<std::uint16_t>(h));
  host.agent = std::make_unique<quorum::Agent>(quorum::Settings{.silence = kLimit},
                                               quorum::Member{self, 100 + index}, clock_.now());
  host.talk.emplace(self, [this, &host](const std::string& frame) {
    send(host.index, *host.leader, frame, true);
  });
  coord::HostPlace place{.self = self, .workers = workers_};
  place.to_run = [&host](const coord::HostView& view, const coord::Report& report) {
    if (!std::holds_alternative<coord::report::Seen>(report)) host.talk->report(view, report);
  };
  host.coordinator = std::make_unique<coord::Coordinator>(config_, place);
  host.rounds.emplace(stay, all);
  host.board = std::make_unique<SimBoard>(boards_);
  host.board->set_self(index);
  return host;
}

// As the room star has it.
std::uint64_t ControlCluster::beat_time() const {
  const std::uint64_t many = std::max<std::uint64_t>(hosts_.size(), 100);
  return std::min(250 * kMillisecond * many / 100, kLimit / 8);
}

void ControlCluster::timed(Host& host, const std::function<void()>& what) {
  if (++timing_ > 1) {
    what();
  } else {
    const double before = cpu_now();
    const std::uint64_t had = allocated();
    what();
    host.allocated += allocated() - had;
    host.cpu += cpu_now() - before;
  }
  --timing_;
}

// In order: what is sent later comes later.
void ControlCluster::arrive_after(std::size_t from, std::size_t to, std::size_t bytes,
                                  std::function<void(Host&)> what) {
  if (!hosts_[from]->is_alive) return;
  if (from != to)
    for (const std::size_t one : {from, to}) {
      ++hosts_[one]->words;
      hosts_[one]->bytes += bytes;
    }
  std::uint64_t& arrives = arrives_[from * workers_.size() + to];
  const std::uint64_t delay = from == to ? 1 : random_.between(100, 300) * kMicrosecond;
  arrives = std::max(arrives + 1, clock_.now() + delay);
  clock_.after(arrives - clock_.now(), [this, to, what = std::move(what)] {
    Host& host = *hosts_[to];
    if (host.is_alive) timed(host, [&] { what(host); });
  });
}

// As the launcher does where nobody leads.
void ControlCluster::wake(Host& host) {
  constexpr std::uint64_t kWake = 20 * kMillisecond;
  if (host.agent->hears_leader(clock_.now()) || std::exchange(host.wakes, true)) return;
  clock_.after(kWake, [this, &host] {
    host.wakes = false;
    if (!host.is_alive) return;
    timed(host, [&] {
      host.agent->pass(clock_.now());
      serve(host);
    });
    wake(host);
  });
}

void ControlCluster::beat(std::size_t index) {
  Host& host = *hosts_[index];
  if (!host.is_alive) return;
  clock_.after(beat_time(), [this, index] { beat(index); });
  timed(host, [&] {
    host.agent->pass(clock_.now());
    if (index == 0 && !host.agent->facts().set) {
      quorum::Members all = host.agent->present(clock_.now());
      all.insert(host.agent->self());
      if (all.size() == hosts_.size()) host.agent->form(all, clock_.now());
    }
    if (!host.workers.empty()) feed(host, observe(host));
    if (host.leader) host.talk->look(host.coordinator->view());
    serve(host);
    say_all(host);
    wake(host);
    if (!host.leading) return;
    exclude(host);
    host.leading->told = pulses(host);
    for (link::LeaderTalk& talk : host.leading->talks) talk.look({.pulses = host.leading->told});
    serve(host);
  });
}

std::size_t ControlCluster::leader() const {
  for (const auto& host : hosts_)
    if (host->is_alive && host->leading) return host->index;
  return 0;
}

ControlCosts ControlCluster::spent(std::uint64_t since) {
  ControlCosts costs;
  costs.took = clock_.now() - since;
  const std::size_t leads = leader();
  std::size_t others = 0;
  for (const auto& host : hosts_) {
    costs.words += host->words, costs.bytes += host->bytes;
    if (host->index == leads) {
      costs.leader_words = host->words, costs.leader_bytes = host->bytes;
      costs.leader_allocated = host->allocated;
      costs.leader_cpu = host->cpu;
    } else if (host->is_alive) {
      costs.most_words = std::max(costs.most_words, host->words);
      costs.most_bytes = std::max(costs.most_bytes, host->bytes);
      costs.host_cpu += host->cpu;
      ++others;
    }
    host->words = host->bytes = host->allocated = 0;
    host->cpu = 0;
  }
  costs.states = std::exchange(states_, 0);
  costs.wholes = std::exchange(wholes_, 0);
  costs.state_bytes = std::exchange(state_bytes_, 0);
  costs.words /= 2, costs.bytes /= 2;  // each was counted at both ends
  costs.host_cpu /= static_cast<double>(std::max<std::size_t>(others, 1));
  return costs;
}

ControlCosts ControlCluster::until_all_have_applied(std::uint64_t txn) {
  const std::uint64_t since = clock_.now();
  const auto has = [txn](const auto& host) { return !host->is_alive || host->applied >= txn; };
  while (!std::ranges::all_of(hosts_, has)) {
    for (int i = 0; i < 100; ++i) require(clock_.step(), "nothing happens any more");
    require(clock_.now() < since + 60 * kSecond, "the run gets no further");
  }
  return spent(since);
}

ControlCosts ControlCluster::form() {
  for (const auto& host : hosts_) {
    feed(*host, coord::event::Start{});
    clock_.after(random_.between(1, beat_time()), [this, h = host->index] { beat(h); });
  }
  return until_all_have_applied(1);
}

ControlCosts ControlCluster::rest(std::uint64_t time) {
  const std::uint64_t since = clock_.now();
  while (clock_.now() < since + time) require(clock_.step(), "nothing happens any more");
  return spent(since);
}

ControlCosts ControlCluster::lose(std::size_t count) {
  spent(0);
  for (std::size_t h = hosts_.size(); h > 0 && count > 0; --h) {
    Host& host = *hosts_[h - 1];
    if (!host.is_alive || host.leading) continue;
    host.is_alive = false;
    boards_.dead.insert(Stay{static_cast<std::uint16_t>(host.index), 1});
    --count;
  }
  return until_all_have_applied(boards_.txn + 2);
}

ControlCosts ControlCluster::lose_leader() {
  spent(0);
  Host& host = *hosts_[leader()];
  host.is_alive = false;
  boards_.dead.insert(Stay{static_cast<std::uint16_t>(host.index), 1});
  return until_all_have_applied(boards_.txn + 2);
}

}  // namespace lockstep::simulation
