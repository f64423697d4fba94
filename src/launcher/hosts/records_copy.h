// Of a host that comes back: its records go on where its new board begins, and what others have
// written before that it copies (link/record_words.h).
//
// Files are read and written beside the loop, by Records::beside().
//
// Ownership: what is in Around outlives it. Threads: the loop's. Errors: by Records::fail().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  void end();

  // A question of another host, or what has come for this one.
  void hear(const link::RecordMessage& message);

 private:
  using Files = std::optional<MissedRecords>;  // of the thread beside the loop
  struct Copied {
    link::WantRecords next;  // to be asked
    Txn upto;
  };
  void change(std::function<Result<bool>(Files&, Txn upto)> how, std::function<void()> then);
  void look();
  void ask();
  void answer(const link::WantRecords& want);
  void take(link::RecordsPiece piece);
  void go_on(bool is_at_end);

  const Around around_;
  std::shared_ptr<Files> files_;  // until the board's records have begun
  std::optional<Copied> copied_;  // as of what has been written; once the files are open
  bool taking_ = false;           // a piece is being written
  int answers_ = 0;               // being read for others
  Deadline ask_again_ = Deadline::in({});
  std::optional<Deadline> copied_by_;
  control::Timers::Timer look_;
};

}  // namespace lockstep::launcher
