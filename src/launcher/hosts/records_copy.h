// Of a host that comes back: its records go on where its new board begins, and what others have
// written before that it copies (link/record_words.h).
//
// Ownership: what is in Around outlives it. Threads: the loop's. Errors: by Records::fail().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "control/timers.h"
#include "coord/board.h"
#include "launcher/linked/missed_records.h"
#include "launcher/linked/records.h"
#include "link/record_words.h"

namespace lockstep::launcher {

class RecordsCopy {
 public:
  struct Around {
    control::Timers& timers;
    std::function<Records&()> records;
    std::function<std::string()> run_dir;  // once a worker has described the run
    std::function<coord::Board()> board;
    std::function<void(const link::RecordMessage&)> say;  // to the leader
    std::function<void(Txn next)> begin;                  // all before it are there
  };
  explicit RecordsCopy(Around around) : around_(std::move(around)) {}

  // On the fresh board of this stay, whose workers are still to come.
  void begin(coord::Stay self);
  void end() { missed_.reset(), look_.cancel(); }

  // A question of another host, or what has come for this one.
  void hear(const link::RecordMessage& message);

 private:
  void look();
  void ask();
  void answer(const link::WantRecords& want) const;
  void take(const link::RecordsPiece& piece);

  const Around around_;
  std::optional<MissedRecords> missed_;  // until the board's records have begun
  Deadline ask_again_ = Deadline::in({});
  std::optional<Deadline> copied_by_;
  control::Timers::Timer look_;
};

}  // namespace lockstep::launcher
