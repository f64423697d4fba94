#include "hosts.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kMaxSteps = 50'000;
constexpr std::size_t kJournal = 400;

}  // namespace

Hosts::Hosts(std::uint64_t seed, const Trouble& trouble, bool traced)
    : trouble_(trouble),
      left_(trouble.budget),
      traced_(traced),
      random_(seed),
      plan_(trouble.shape),
      reference_(trouble.shape, plan_) {
  make_hosts();
  make_actors();
}

void Hosts::make_hosts() {
  const std::vector<std::uint32_t>& workers = trouble_.shape.workers;
  coord::Table first{.txn = Txn(0), .generation = {}, .members = {}};
  for (std::uint32_t h = 0; h < workers.size(); ++h) {
    Host& host = hosts_.emplace_back();
    host.stay = {static_cast<std::uint16_t>(h), 1};
    in_force_.push_back(host.stay.host);
    listable_.push_back(host.stay);
    const bool comes = link::contains(trouble_.shape.comers, std::size_t{h});
    for (std::uint32_t w = 0; w < workers[h]; ++w) {
      const Worker& worker = add_worker(h, comes);
      if (!comes) first.members.push_back({worker.uid, Slot(w)});
    }
    if (!comes) first.hosts.push_back({host.stay, workers[h]});
  }
  ways_.resize(hosts_.size() * hosts_.size());
  ends_.resize(ways_.size());
  cut_.resize(ways_.size());
  reports_.resize(hosts_.size());
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    Host& host = hosts_[h];
    host.board = std::make_unique<SimBoard>(host.stay, trouble_, plan_);
    if (outside(h))
      host.board->begin_at(link::kNever);
    else
      host.board->set_table(first, 0);
    host.owners = std::make_unique<link::BoardOwners>(plan_);
    host.rounds = std::make_unique<link::HostRounds>(host.stay, in_force_);
    for (std::size_t other = 0; other < hosts_.size(); ++other)
      if (other != h)
        way(h, other).pair = planted_pair(host.stay, hosts_[other].stay, trouble_.planted);
  }
  if (trouble_.shape.comers.size() > 1) see("several newcomers");
  leader_ = std::make_unique<link::RoundKeeper>(plan_, term_, stays());
}

Hosts::Worker& Hosts::add_worker(std::size_t index, bool comes) {
  Host& host = hosts_[index];
  host.workers.push_back(workers_.size());
  Worker& worker = workers_.emplace_back();
  worker.place = host.places++;
  worker.uid = coord::uid_of(host.stay, worker.place + 1);
  worker.host = static_cast<std::uint32_t>(index);
  worker.comes = comes;
  return worker;
}

void Hosts::make_actors() {
  const auto add = [this](std::function<bool()> act) { actors_.push_back({1, std::move(act)}); };
  for (Worker& worker : workers_) add([this, &worker] { return work(worker); });
  for (std::size_t a = 0; a < hosts_.size(); ++a) {
    add([this, a] { return attend(a); });
    add([this, a] { return obey(a); });
    add([this, a] { return lead(a); });
    for (std::size_t b = 0; b < hosts_.size(); ++b) {
      if (a == b) continue;
      add([this, a, b] { return send(a, b); });
      add([this, a, b] { return receive(a, b); });
      add([this, a, b] { return settle_aside(a, b); });
      if (a < b) add([this, a, b] { return make(a, b); });
    }
  }
  add([this] { return watch(); });
  add([this] { return lead_on(); });
  add([this] { return recover(); });
}

void Hosts::draw_weights() {
  for (Direction& direction : ways_)
    direction.taste =
        std::array{Taste::kAny, Taste::kAny, Taste::kFirst, Taste::kLast}[random_.between(0, 3)];
  const bool hard = random_.chance(0.4);
  for (Actor& actor : actors_) {
    const double u = static_cast<double>(random_.between(1, 1000)) / 1000;
    actor.weight = hard ? (random_.chance(0.25) ? 1e-3 : 1) : u * u * u + 1e-6;
  }
}

bool Hosts::someone_acts() {
  std::vector<std::pair<double, const Actor*>> left;
  double all = 0;
  for (const Actor& actor : actors_) {
    left.emplace_back(actor.weight, &actor);
    all += actor.weight;
  }
  while (!left.empty()) {
    double at = all * static_cast<double>(random_.between(0, 999'999)) / 1e6;
    std::size_t i = 0;
    while (i + 1 < left.size() && at >= left[i].first) at -= left[i++].first;
    if (left[i].second->act()) return true;
    all -= left[i].first;
    left[i] = left.back();
    left.pop_back();
  }
  return false;
}

bool Hosts::step() {
  if (random_.chance(1.0 / 40)) draw_weights();
  if (random_.chance(trouble_.faults) && fault()) return true;
  return someone_acts() || (!is_through() && fault());
}

Outcome Hosts::run() {
  draw_weights();
  try {
    while (step()) {
      require(++outcome_.steps < kMaxSteps, "I7: it does not end");
      while (journal_.size() > kJournal) journal_.pop_front();
    }
    check_end();
  } catch (const Violation& violation) {
    outcome_.violation = violation.what();
    for (const std::string& line : journal_) outcome_.journal += line + "\n";
  }
  return std::move(outcome_);
}

bool Hosts::live(std::size_t host) const {
  return hosts_[host].alive && std::ranges::any_of(hosts_[host].workers, [&](std::size_t w) {
           return workers_[w].alive && !workers_[w].comes;
         });
}

bool Hosts::outside(std::size_t host) const {
  return std::ranges::all_of(hosts_[host].workers,
                             [&](std::size_t w) { return workers_[w].comes; });
}

bool Hosts::in_set(std::size_t host) const {
  const link::HostIndex index = hosts_[host].stay.host;
  return link::contains(in_force_, index) &&
         (!leader_ || link::contains(leader_->round().set, index));
}

std::size_t Hosts::lively() const {
  std::size_t count = 0;
  for (std::size_t h = 0; h < hosts_.size(); ++h) count += live(h) && in_set(h) ? 1 : 0;
  return count;
}

bool Hosts::is_through() const {
  return std::ranges::all_of(workers_, [this](const Worker& worker) {
    return !worker.alive || !in_set(worker.host) || worker.comes ||
           worker.txn >= trouble_.shape.transactions;
  });
}

std::string Hosts::missing(const Worker& worker) const {
  const SimBoard& board = *hosts_[worker.host].board;
  std::string text = ", without";
  plan_.contents(worker.txn).for_each(worker.txn, [&](const Item& item) {
    if (!link::has(board, item)) text += " " + name(item);
  });
  return text;
}

// I3, I7: nobody can do anything, and no fault is left. Without a quorum nobody need be through.
void Hosts::check_end() {
  std::vector<link::HostIndex> there;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (hosts_[h].alive && in_set(h)) there.push_back(hosts_[h].stay.host);
  if (trouble_.quorum && (there.empty() || !quorum(there, in_force_)))
    return see("ends without a quorum");
  for (const Worker& worker : workers_) {
    if (!worker.alive || !hosts_[worker.host].alive || !in_set(worker.host)) continue;
    if (worker.comes) {  // in no table that counts
      for (std::size_t other = 0; worker.has_image && other < hosts_.size(); ++other) {
        const coord::Table* next = hosts_[other].board->table(worker.txn + 1);
        require(!live(other) || !counts(other) || next == nullptr || !next->has(worker.uid),
                "I7: a newcomer is listed and does not come");
      }
      continue;
    }
    require(worker.txn >= trouble_.shape.transactions,
            "I7: nothing moves, and a worker of host " + std::to_string(worker.host) +
                " is still in t" + std::to_string(worker.txn) + missing(worker));
  }
  see("ends");
}

Outcome run_hosts(std::uint64_t seed, const Trouble& trouble) {
  Outcome outcome = Hosts(seed, trouble, false).run();
  if (!outcome.violation.empty()) outcome = Hosts(seed, trouble, true).run();
  return outcome;
}

Trouble draw(std::uint64_t seed) {
  Random random(seed ^ 0x5eed5eed5eed);
  Trouble trouble;
  Shape& shape = trouble.shape;
  const std::uint64_t hosts = random.chance(0.1) ? 5 : random.between(2, 4);
  std::uint32_t workers = 0;
  shape.workers.clear();
  for (std::uint64_t h = 0; h < hosts; ++h) {
    shape.workers.push_back(
        static_cast<std::uint32_t>(random.chance(0.5) ? 1 : random.between(1, 3)));
    workers += shape.workers.back();
  }
  shape.virtual_workers = workers + static_cast<std::uint32_t>(random.between(0, 2));
  shape.chunks = {static_cast<std::uint32_t>(random.between(1, 3)),
                  static_cast<std::uint32_t>(random.between(1, 3))};
  shape.transactions = random.between(2, 5);
  // Of an epoch's end there are at most two (docs/design/protocol.md).
  while (random.chance(0.5)) {
    const std::uint64_t ends = random.between(1, 31);
    if ((ends & ends >> 1 & ends >> 2) == 0) shape.ends = ends;
  }
  if (random.chance(0.3)) {
    const std::uint64_t most = std::min<std::uint64_t>(hosts, 5) - 2;
    while (shape.comers.size() < most && (shape.comers.empty() || random.chance(0.7))) {
      const std::size_t comer = random.between(0, hosts - 1);
      if (link::contains(shape.comers, comer)) continue;
      shape.comers.push_back(comer);
      shape.workers[comer] = 1;
    }
  }
  shape.cells = static_cast<std::uint32_t>(random.between(1, 3));
  shape.buffers = random.chance(0.7);
  shape.rows = random.chance(0.5);
  shape.depth = random.between(1, 3);
  trouble.quorum = random.chance(0.5);
  const auto upto = [&](int most) {
    return static_cast<int>(random.between(0, static_cast<std::uint64_t>(most)));
  };
  trouble.budget = {.workers = upto(3),
                    .hosts = upto(3),
                    .breaks = upto(3),
                    .links = upto(2),
                    .cuts = upto(2),
                    .pauses = upto(3),
                    .suspicions = upto(1),
                    .leaders = trouble.quorum ? upto(2) : 0,
                    .replacements = random.chance(0.5) ? upto(2) : 0,
                    .returns = random.chance(0.5) ? upto(2) : 0};
  trouble.faults = random.chance(0.5) ? 0.03 : 0.008;
  return trouble;
}

}  // namespace lockstep::simulation
