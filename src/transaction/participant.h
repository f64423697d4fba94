// This process's part in the run: goes through the transactions with the others, whoever comes or
// goes (docs/design/protocol.md). Trainer and Step stand on it.
//
// Ownership: refers to the session, state and program, which outlive it. Errors: the first is
// final. Threads: one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/exchange.h"
#include "coord/board.h"
#include "coord/faults.h"
#include "coord/table.h"
#include "ddp/reducer.h"
#include "lockstep/state.h"
#include "transaction/commit_log.h"
#include "transaction/program.h"
#include "worker/inject.h"
#include "worker/session.h"

namespace lockstep::transaction {

struct ParticipantOptions {
  coord::BoardPlan board;
  std::uint32_t eval_items = 0;
  std::string run_dir;
  std::uint64_t total_steps = 0;  // for people; 0: not known
  ddp::ReducerOptions reducer;
  std::size_t training_words = 0;  // see ShareNotes::training()
};

class Participant {
 public:
  static Result<std::unique_ptr<Participant>> create(worker::Session& session, TrainState& state,
                                                     Program& program,
                                                     const ParticipantOptions& options);

  // Takes part from `next` on; the state is that of its start, `time` the run's; `complete`:
  // nothing is left to run.
  Status join(Txn next, const coord::RunTime& time, bool complete);
  // Takes state from a live peer, and its first transaction with it.
  Status heal();

  enum class Turn { kRun, kLeft, kStopped, kEnd };
  // Waits for the table of the next transaction. kRun: run() it; kLeft: not a member any more
  // (shrink); kStopped: the launcher asked all to stop; kEnd: the run is complete.
  Result<Turn> turn();
  Status run();
  Txn next() const { return next_; }

  // After kEnd: the first live member says `last_words` once (final checkpoint, finish); the others
  // wait until the agent has them.
  Status close(const std::function<Status()>& last_words);
  bool first_live() const;

  // See CommitLog.
  Status record_all() { return log_.record_all(); }

  // The transaction's phases as the board shows them; anything the program does is one of them.
  void enter(coord::Phase phase, std::uint32_t share = 0);
  comm::Exchange& exchange() { return *exchange_; }
  ddp::Reducer& reducer() { return *reducer_; }
  const ddp::Reducer& reducer() const { return *reducer_; }
  const coord::Board& board() const { return board_; }
  // Of the step under way.
  ShareNotes notes(std::uint32_t v) const { return {exchange_->notes(v), notes_plan_}; }
  // Whether somebody has come in since the last step; all members say the same.
  bool has_newcomers() const { return newcomers_; }
  // Whether that share's record is this worker's, once the step is whole.
  bool computed(std::uint32_t v) const {
    return notes(v).rank().load(std::memory_order_relaxed) ==
           static_cast<std::uint64_t>(rank_.value());
  }

 private:
  Participant(worker::Session& session, TrainState& state, Program& program,
              const ParticipantOptions& options);

  // participant.cpp: from transaction to transaction.
  std::uint64_t state_hash() const;
  Status heed_stop();
  Status skip();
  bool leaving() const;
  bool overtaken();
  bool overrun() const;

  // participant_transaction.cpp: one of them.
  Status begin_exchange();
  Status compute_owned();
  Status compute_item(std::uint32_t item, bool adopted);
  Status compute_step_share(std::uint32_t item, bool adopted);
  void take_over_rows();
  bool marks_its_last() const;
  ddp::FoldStep fold_for(std::uint32_t item, bool adopted) const;
  bool items_marked();
  bool table_published();
  Status wait_whole();
  void note_membership_change();
  void note_commit();
  Status update();
  Status check();
  Status commit();

  // participant_rehearsal.cpp: each share of a step once more.
  std::uint32_t rehearser(std::uint32_t item) const;
  bool rehearsed(std::uint32_t item) const;
  bool has_doubts();
  Status rehearse();
  Status compute_again(std::uint32_t item, ScratchOutput& scratch);
  Status rehearse_share(std::uint32_t item);
  Status check_rehearsal() const;
  Status check_rehearsed(std::uint32_t item) const;

  // participant_newcomer.cpp: whether its shares are those of the others.
  bool may_prove() const;
  std::optional<std::uint32_t> next_witness() const;
  bool recorded(std::uint32_t item) const;
  bool wait_for_record(std::uint32_t item);
  Status prove();
  Status compare_with(std::uint32_t item);
  bool asked_alike(std::uint32_t item, const ShareOutput& here) const;
  Status check_proof(std::uint32_t item, const ShareOutput& here) const;
  Status check_hashes(std::uint32_t item, const ShareOutput& here) const;
  std::string which_came_in() const;

  // participant_membership.cpp: who takes part next; heal().
  std::vector<coord::Member> wanted_joiners(const coord::Table& wish) const;
  void publish_table(std::vector<coord::Member> joiners);
  bool settle_joiners();
  Status donate_if_asked();
  Result<bool> try_heal(std::uint64_t mark);

  coord::WorkerSlot& self_slot() const { return board_.slot(session_.identity().slot); }

  worker::Session& session_;
  TrainState& state_;
  Program& program_;
  ParticipantOptions options_;
  coord::Board board_;
  CommitLog log_;
  std::unique_ptr<comm::Exchange> exchange_;
  std::unique_ptr<ddp::Reducer> reducer_;
  worker::Injector injector_;
  Txn next_{0};
  coord::Table table_;        // of next_
  std::size_t done_ = 0;      // own items computed in this transaction
  std::uint32_t marked_ = 0;  // items seen marked, a prefix
  std::uint64_t handled_request_ = 0;
  std::uint64_t whole_since_ns_ = 0;  // waiting only for a joiner since; 0: not
  std::uint32_t doublings_ = 0;       // of the patience with one that was too late, so far
  bool changed_ = false;              // a death in this transaction
  Rank rank_{coord::kNewcomer};
  bool prefaulted_ = false;
  std::vector<std::byte> start_buffers_;
  std::vector<std::byte> spare_row_;  // of one virtual worker: what is there already goes here
  NotesPlan notes_plan_;
  bool rehearsing_ = false;      // this transaction
  std::string doubt_;            // why, if it was not to be at its start
  bool hashing_ = false;         // this transaction's shares note hashes of gradients and rows
  bool newcomers_ = false;       // see has_newcomers()
  bool unproved_ = false;        // the same, until a step in which they can prove themselves
  Txn came_in_{0};               // a newcomer's first transaction
  std::vector<bool> witnesses_;  // of this transaction's shares those that it has looked at
};

}  // namespace lockstep::transaction
