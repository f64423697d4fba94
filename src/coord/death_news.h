// What is said of deaths: a program's own error goes wrong in all its workers, and is told once.
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "coord/incident_book.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

// In which computation it is, as " while computing …"; empty where it waits, or is between steps.
std::string place_of(const WorkerProgress& seen);

// What the newest deaths have in common with those of another try: the first of their errors, in an
// order that does not depend on who died first. `newest`: of incidents, or null.
std::string own_error(const IncidentBook::Entry* newest, const std::string& otherwise);
// Why nobody is left who could go on.
std::string why_none_is_left(const IncidentBook::Entry* newest, const std::string& otherwise);

class DeathNews {
 public:
  explicit DeathNews(Turn& turn) : turn_(turn) {}

  // A worker's own words.
  void tell_failure(const std::string& name, const WorkerView& worker, const Error& error);
  // Why it cannot take part, of one that was started by hand.
  void tell_refusal(const std::string& name, const WorkerView& worker, const Error& error);
  // `interrupted`: the transaction, if any. `then`: what is done about it.
  void tell_death(const std::string& name, const WorkerView& worker, const Death& death,
                  std::optional<Txn> interrupted, const std::string& then);
  // Deaths by the workers' own doing, once their transaction is committed, or there is none left:
  // until then they may be the program's, and what was to mend them comes to nothing.
  void tell_held(std::uint64_t applied, bool is_ending);
  void drop_held() { held_.clear(); }
  void begin_group() { last_failure_ = {}; }

 private:
  Turn& turn_;
  // What a worker said last of its end, and in which transaction.
  std::pair<std::string, Txn> last_failure_;
  std::vector<std::string> held_;
  Txn held_txn_;
};

}  // namespace lockstep::coord
