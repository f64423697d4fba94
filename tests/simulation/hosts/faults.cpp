// What happens to workers, hosts, links and the network.
#include <algorithm>
#include <array>

#include "hosts.h"

namespace lockstep::simulation {

bool Hosts::fault() {
  using Fault = bool (Hosts::*)();
  std::vector<Fault> faults{&Hosts::fault_of_worker,  &Hosts::fault_of_host,
                            &Hosts::fault_of_link,    &Hosts::fault_of_leader,
                            &Hosts::fault_of_network, &Hosts::pause};
  while (!faults.empty()) {
    const std::size_t i = random_.between(0, faults.size() - 1);
    if ((this->*faults[i])()) return true;
    faults.erase(faults.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return false;
}

bool Hosts::fault_of_worker() {
  if (left_.workers == 0) return false;
  Worker& worker = workers_[random_.between(0, workers_.size() - 1)];
  if (!worker.alive || !hosts_[worker.host].alive) return false;
  const auto alive = std::ranges::count_if(hosts_[worker.host].workers,
                                           [&](std::size_t w) { return workers_[w].alive; });
  if (alive == 1 && lively() <= 1) return false;
  --left_.workers;
  see("worker deaths");
  kill_worker(worker);
  return true;
}

void Hosts::kill_worker(Worker& worker) {
  note([&] {
    return "FAULT worker " + std::to_string(worker.place + 1) + " of host " +
           std::to_string(worker.host) + " dies";
  });
  worker.alive = false;
  SimBoard& board = *hosts_[worker.host].board;
  if (!worker.job.empty() && worker.job.front().begun && !worker.job.front().piece)
    board.cell(worker.job.front().item).writing = false;
  worker.job.clear();
}

bool Hosts::fault_of_host() {
  const std::size_t host = random_.between(0, hosts_.size() - 1);
  if (left_.hosts == 0 || !hosts_[host].alive) return false;
  if (live(host) && lively() <= 1) return false;
  if (trouble_.aim == Aim::kOutrunning && !outruns_table(host)) return false;
  if (trouble_.aim == Aim::kOutOfTable && live(host)) return false;
  --left_.hosts;
  see("host deaths");
  kill_host(host);
  return true;
}

bool Hosts::outruns_table(std::size_t host) const {
  for (const Host& other : hosts_)
    for (std::uint64_t t = 1; t < trouble_.shape.transactions; ++t) {
      if (other.board->table(t) != nullptr || hosts_[host].board->table(t) == nullptr) continue;
      for (std::uint32_t v = 0; v < plan_.contents(t).records; ++v)
        if (link::has(*other.board, {.txn = Txn(t), .kind = Kind::kRecord, .index = v}))
          return true;
    }
  return false;
}

// What it has sent may still arrive.
void Hosts::kill_host(std::size_t host) {
  note([&] { return "FAULT host " + std::to_string(host) + " dies whole"; });
  for (const std::size_t w : hosts_[host].workers) workers_[w].alive = false;
  for (std::size_t other = 0; other < hosts_.size(); ++other)
    if (other != host) close_end(host, other);
  hosts_[host].alive = false;
  hosts_[host].inbox.clear();
}

bool Hosts::fault_of_link() {
  const std::size_t host = random_.between(0, hosts_.size() - 1);
  if (left_.links == 0 || !hosts_[host].alive || !hosts_[host].link_alive) return false;
  --left_.links;
  see("link deaths");
  note([&] { return "FAULT the link of host " + std::to_string(host) + " dies"; });
  for (std::size_t other = 0; other < hosts_.size(); ++other)
    if (other != host) close_end(host, other);
  hosts_[host].link_alive = false;
  return true;
}

// A connection breaks; or nothing passes any more, one way or both, for a while or for good.
bool Hosts::fault_of_network() {
  const std::size_t a = random_.between(0, hosts_.size() - 1);
  const std::size_t b = random_.between(0, hosts_.size() - 1);
  if (a == b || !hosts_[a].alive || !hosts_[b].alive) return false;
  const auto pair = [&] { return std::to_string(a) + "-" + std::to_string(b); };
  if (left_.breaks > 0 && connected(a, b) && connected(b, a) && random_.chance(0.6)) {
    --left_.breaks;
    see("breaks");
    note([&] { return "FAULT pair " + pair() + " breaks"; });
    lose(a, b);
    lose(b, a);
    close_end(a, b);
    close_end(b, a);
    return true;
  }
  if (left_.cuts == 0 || way(a, b).blocked || cut_[a * hosts_.size() + b]) return false;
  const bool both = random_.chance(0.5);
  const bool good = random_.chance(0.4) && in_set(a) && in_set(b) && lively() > 1;
  --left_.cuts;
  see(both ? "cuts" : "cuts one way");
  if (good) see("cuts for good");
  note([&] {
    return "FAULT pair " + pair() + " is cut " + (both ? "" : "one way ") +
           (good ? "for good" : "for a while");
  });
  way(a, b).blocked = true;
  if (both) way(b, a).blocked = true;
  if (good) cut_[a * hosts_.size() + b] = cut_[b * hosts_.size() + a] = 1;
  return true;
}

// It is lost, or takes a live host for silent.
bool Hosts::fault_of_leader() {
  if (!leader_) return false;
  if (left_.leaders > 0 && random_.chance(0.5)) {
    --left_.leaders;
    see("leaders lost");
    note([&] { return "FAULT the leader is lost"; });
    if (trouble_.quorum && random_.chance(0.5)) {
      see("leaders deposed");
      deposed_.push_back(
          {std::move(leader_), static_cast<link::HostIndex>(leader_host_), in_force_});
    }
    leader_.reset();
    return true;
  }
  const std::size_t host = random_.between(0, hosts_.size() - 1);
  if (left_.suspicions == 0 || !live(host) || !in_set(host) || lively() <= 1) return false;
  auto without = leader_->round().set;
  std::erase(without, hosts_[host].stay.host);
  if (trouble_.quorum && (host == leader_host_ || !quorum(without, in_force_))) return false;
  --left_.suspicions;
  see("false suspicions");
  note([&] {
    return "FAULT the leader takes host " + std::to_string(host) + ", alive, for silent";
  });
  leader_->lose_host(hosts_[host].stay);
  gone_.push_back(hosts_[host].stay);
  tell_round(*leader_);
  return true;
}

bool Hosts::pause() {
  if (left_.pauses == 0) return false;
  Host& host = hosts_[random_.between(0, hosts_.size() - 1)];
  Worker& worker = workers_[random_.between(0, workers_.size() - 1)];
  bool& paused = random_.chance(0.4)   ? worker.paused
                 : random_.chance(0.5) ? host.paused
                                       : host.link_paused;
  if (paused) return false;
  --left_.pauses;
  see("pauses");
  note([&] { return "FAULT something of host " + std::to_string(host.stay.host) + " pauses"; });
  paused = true;
  return true;
}

// One by one, sooner or later.
bool Hosts::recover() {
  std::vector<std::function<void()>> all;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    Host& host = hosts_[h];
    if (host.paused) all.emplace_back([&host] { host.paused = false; });
    if (host.link_paused) all.emplace_back([&host] { host.link_paused = false; });
    if (host.alive && !host.link_alive && !host.paused)
      all.emplace_back([this, h] { start_link(h); });
    for (std::size_t other = 0; other < hosts_.size(); ++other)
      if (other != h && way(h, other).blocked && !cut_[h * hosts_.size() + other])
        all.emplace_back([this, h, other] { way(h, other).blocked = false; });
  }
  for (Worker& worker : workers_)
    if (worker.paused) all.emplace_back([&worker] { worker.paused = false; });
  if (all.empty()) return false;
  all[random_.between(0, all.size() - 1)]();
  return true;
}

}  // namespace lockstep::simulation
