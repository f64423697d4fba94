#include "coord/incident_book.h"

#include <algorithm>

namespace lockstep::coord {
namespace {

// Stamps older than the incident belong to an earlier one.
void last(std::uint64_t& phase, std::uint64_t stamp, std::uint64_t noticed) {
  if (stamp >= noticed) phase = std::max(phase, stamp);
}

void take_stamps(IncidentPhases& phases, std::span<const WorkerProgress> survivors) {
  for (const WorkerProgress& worker : survivors) {
    last(phases.aborted, worker.abort_seen_ns, phases.noticed);
    last(phases.regrouped, worker.regrouped_ns, phases.noticed);
    last(phases.committed, worker.committed_ns, phases.noticed);
    if (worker.resumed_ns >= phases.noticed &&
        (phases.resumed == 0 || worker.resumed_ns < phases.resumed))
      phases.resumed = worker.resumed_ns;
  }
}

}  // namespace

IncidentBook::Entry& IncidentBook::add(Victim victim, std::optional<Txn> txn, bool from_outside,
                                       std::uint64_t death_ns, std::uint64_t now) {
  const bool joins = !pages_.open.empty() && (!pages_.open.back().committed ||
                                              now - pages_.open.back().last_victim <= window_);
  if (!joins) {
    Entry& fresh = pages_.open.emplace_back();
    fresh.report.number = ++pages_.count;
    fresh.report.phases.death = death_ns;
    fresh.report.phases.noticed = now;
    fresh.committed = true;  // until a victim interrupts a transaction
  }
  Entry& entry = pages_.open.back();
  entry.report.victims.push_back(std::move(victim));
  entry.from_outside = entry.from_outside && from_outside;
  entry.last_victim = now;
  entry.report.phases.rejoined = 0;  // a late victim opens again what was mended already
  if (txn) {
    entry.report.txn = std::max(entry.report.txn, *txn);
    entry.committed = false;
    entry.report.phases.committed = 0;
  }
  return entry;
}

std::vector<Incident> IncidentBook::observe(std::span<const WorkerProgress> survivors,
                                            std::uint64_t applied, bool whole, std::uint64_t now) {
  std::vector<Incident> changed;
  for (Entry& entry : pages_.open) {
    IncidentPhases& phases = entry.report.phases;
    const bool commits = !entry.committed && applied > entry.report.txn.value();
    if (commits) {
      take_stamps(phases, survivors);
      // A survivor that saw the transaction whole before it saw the death has no stamp.
      if (phases.committed == 0) phases.committed = now;
      entry.committed = true;
    }
    const bool rejoins = entry.committed && entry.replaced && whole && phases.rejoined == 0;
    if (rejoins) phases.rejoined = now;
    if (commits || rejoins) changed.push_back(entry.report);
  }
  // The window keeps the newest one open for late victims.
  std::erase_if(pages_.open, [&](const Entry& entry) {
    return entry.committed && (!entry.replaced || entry.report.phases.rejoined != 0) &&
           now - entry.last_victim > window_;
  });
  return changed;
}

std::vector<Incident> IncidentBook::close_all(int rung) {
  std::vector<Incident> reports;
  for (Entry& entry : pages_.open) {
    entry.report.rung = entry.committed && &entry != &pages_.open.back() ? entry.report.rung : rung;
    reports.push_back(entry.report);
  }
  pages_.open.clear();
  return reports;
}

}  // namespace lockstep::coord
