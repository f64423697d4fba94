// What comes to a run.
#include <csignal>
#include <iterator>

#include "coord/hang_watch.h"
#include "run.h"

namespace lockstep::simulation {

namespace event = coord::event;

void Run::fault() {
  if (is_over() || left_ == 0) return;
  clock.after(random.between(1, 250) * kMillisecond, [this] { fault(); });
  if (random.chance(0.15)) fault_of_host();
  if (random.chance(0.15)) fault_of_leader();
  if (left_ == 0) return;
  --left_;
  ++faults_;
  if (random.chance(0.7)) return fault_of_worker();
  if (random.chance(0.5)) {
    const auto most = shape.virtual_workers;
    const event::Scale scale{++requests_, static_cast<std::uint32_t>(random.between(1, most))};
    if (const auto leads = leader()) hosts[*leads]->feed(scale);
    return;
  }
  if (random.chance(0.3)) return stop();
  const bool to_all = random.chance(0.5);  // of the run, or of a host
  const std::size_t one = random.between(0, hosts.size() - 1);
  for (std::size_t h = 0; h < hosts.size(); ++h)
    for (const auto& worker : hosts[h]->members()) {
      if (!to_all && h != one) continue;
      worker->seen.signal = SIGTERM;
      signalled_.insert(worker->uid);
      ++deaths_;
    }
  stopped_ = true;
  see("signals to workers");
}

void Run::stop() {
  stopped_ = true;
  see("stops");
  std::size_t at = random.between(0, hosts.size() - 1);
  while (hosts[at]->is_lost) at = (at + 1) % hosts.size();
  if (random.chance(0.2))
    clock.after(random.between(0, 30) * kMillisecond, [this] { fault_of_members(); });
  hosts[at]->feed(event::Signal{SIGTERM, {}});
}

// It is in the next table, and what is under way is not whole.
void Run::loads() {
  if (left_ == 0 || !random.chance(0.3)) return;
  --left_;
  ++faults_;
  clock.after(random.between(0, 5) * kMillisecond, [this] {
    if (is_over()) return;
    stop();
    clock.after(random.between(0, 20) * kMillisecond, [this] { fault_of_members(); });
  });
}

void Run::fault_of_worker() {
  SimHost& host = *hosts[random.between(0, hosts.size() - 1)];
  const bool all = random.chance(0.15);
  for (const auto& worker : host.alive()) {
    if (!all && !random.chance(0.5)) continue;
    if (random.chance(0.4) && worker->computes && !all) {
      see("hangs");
      worker->hung = true;
      clock.after(3000 * kSecond, [this, worker] { end_hang(*worker); });
    } else {
      see(host.members().size() == 1 ? "deaths of an only member" : "deaths");
      const bool own = random.chance(0.2);
      note("a fault kills worker " + std::to_string(worker->uid.value() & 0xffff) + " of host " +
           std::to_string(coord::stay_of(worker->uid).host));
      host.kill(*worker, own ? coord::ExitStatus{7, 0} : coord::ExitStatus{-1, SIGKILL});
    }
    ++deaths_;
    if (!all) return;
  }
}

// All that have the state of the step under way.
void Run::fault_of_members() {
  if (is_over()) return;
  see("deaths of all members");
  for (const auto& host : hosts)
    for (const auto& worker : host->members()) host->kill(*worker, {-1, SIGKILL}), ++deaths_;
}

// Where nobody waits for it, it is left alone.
void Run::end_hang(SimWorker& worker) {
  if (is_over() || worker.life == SimWorker::Life::kGone) return;
  for (const auto& host : hosts)
    for (const auto& other : host->members())
      require(other->hung || other->txn != worker.txn || !other->done_since ||
                  *other->done_since + 2 * coord::HangWatch::kLeast > clock.now(),
              "a hung worker is not evicted, though others wait for it");
  worker.hung = false;
}

// Those that are left can go on, as far as any of them knows: a change that only the leader has
// told of is not known.
bool Run::can_lose(std::size_t host) const {
  if (hosts[host]->is_lost || !cut_off_.empty()) return false;
  quorum::Members left;
  const quorum::Facts* newest = nullptr;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const quorum::Facts& facts = hosts[h]->agent().facts();
    if (hosts[h]->is_lost || h == host) continue;
    if (newest == nullptr || quorum::is_newer(facts, *newest)) newest = &facts;
    left.insert(hosts[h]->agent().self());
  }
  if (newest == nullptr || (!newest->set && host == 0)) return false;  // it makes the first one
  const auto enough = [&](const quorum::Set& set) {
    return !set || quorum::is_quorum(set, left, {});
  };
  return enough(newest->set) && enough(newest->change);
}

void Run::lose(std::size_t host) {
  note("host " + std::to_string(host) + " is lost");
  hosts[host]->lose();
  cut_off_.erase(host);
  const bool refuses = random.chance(0.5);  // its kernel lives, and says that nobody listens
  for (std::size_t other = 0; other < hosts.size(); ++other) {
    if (other == host) continue;
    disconnect(host, other);
    if (!refuses) continue;
    clock.after(random.between(100 * kMicrosecond, 20 * kMillisecond),
                [this, host, other] { hosts[other]->hear_refusal(hosts[host]->agent().self()); });
  }
}

void Run::fault_of_host() {
  if (is_over() || hosts_to_lose_ == 0 || left_ == 0) return;
  const std::size_t lost = random.between(0, hosts.size() - 1);
  if (lost == leader() || !can_lose(lost)) return;
  --hosts_to_lose_;
  --left_;
  ++faults_;
  see(formed_ ? "lost hosts" : "hosts lost before the first state");
  lose(lost);
}

// It dies, or is cut off and goes on.
void Run::fault_of_leader() {
  const auto old = leader();
  if (leaders_to_lose_ == 0 || !old || !can_lose(*old)) return;
  --leaders_to_lose_;
  --left_;
  ++faults_;
  if (random.chance(0.5)) {
    see("lost leaders");
    return lose(*old);
  }
  see("leaders cut off");
  note("the leader, host " + std::to_string(*old) + ", is cut off");
  cut_off_.insert(*old);
  for (std::size_t other = 0; other < hosts.size(); ++other)
    if (other != *old) disconnect(*old, other);
  clock.after(random.between(100, 3000) * kMillisecond, [this, cut = *old] {
    if (cut_off_.erase(cut) == 0) return;
    for (std::size_t other = 0; other < hosts.size(); ++other)
      if (other != cut) connect(cut, other);
  });
}

void Run::written() {
  const bool has_paid = !known_.replacements.empty();
  if (left_ == 0 || !random.chance(has_paid ? 0.2 : 0.01)) return;
  clock.after(random.between(0, 5 * kMillisecond), [this] {
    if (!is_over() && left_ > 0) fault_of_leader();
  });
}

}  // namespace lockstep::simulation
