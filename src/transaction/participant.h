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
#include "transaction/join_patience.h"
#include "transaction/program.h"
#include "transaction/repeats.h"
#include "transaction/share_comparison.h"
#include "transaction/written_state.h"
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
  bool hooks = false;              // the program has some, for messages
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

  // After kEnd: the first live member of each host says `last_words` once (final checkpoint,
  // finish); the others wait until the agent has them.
  Status close(const std::function<Status()>& last_words);
  bool first_live() const;     // of the run
  bool first_of_host() const;  // of this one, which has files of its own

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
  // Whether states are compared in this step anyway: somebody has come in since the last one, or
  // shares are computed twice, and a loss may be another one because the state is. All members say
  // the same.
  bool compares_states() const { return compares_states_; }
  bool has_hooks() const { return options_.hooks; }
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
  coord::Parts parts(Txn txn) const;
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
  void begin_notes(const ShareNotes& notes);
  void take_over_rows();
  ddp::FoldStep fold_for(std::uint32_t item, bool adopted) const;
  bool items_marked();
  bool table_published();
  Status wait_whole();
  Status check_nobody_ended() const;
  void note_membership_change();
  void note_commit();
  Status update();
  Status check();
  Status commit();

  // participant_rehearsal.cpp: shares of a step once more.
  ShareMarks share_marks(std::uint32_t item) const;
  Repeats repeats() const;  // of the step under way
  bool has_doubts();
  bool has_ends();
  Status rehearse(bool all_marked);
  Status compute_again(std::uint32_t item, ScratchOutput& scratch);
  Result<bool> rehearse_share(std::uint32_t item);
  Status check_rehearsal() const;
  Status check_rehearsed(std::uint32_t item) const;
  ComputedShare computed_first(std::uint32_t item) const;
  ComputedShare computed_again(std::uint32_t item) const;
  std::string in_rank(std::uint64_t rank) const;
  std::string in_own_rank() const;
  NamesOfWords names_of_words() const;

  // participant_newcomer.cpp: whether its shares are those of the others.
  bool unproved(std::uint32_t item) const;
  Status tell_judged(std::uint32_t item);
  void tell_unvouched();
  Status check_proofs() const;
  Status check_proof(std::uint32_t item) const;
  std::optional<std::uint32_t> item_of(std::uint64_t rank) const;
  std::string which_came_in(std::uint32_t item) const;
  void note_proofs();

  // participant_again.cpp: from time to time, what a worker that came in later computes.
  std::vector<std::uint32_t> members_here() const;
  std::vector<std::uint32_t> members_of(coord::Stay host) const;
  enum class Came { kEarlier, kLater };
  std::vector<std::uint32_t> members_that_came(Came came) const;
  void look_again();
  // As the table says, which a newcomer has, too, for the transaction that it applies late.
  bool moved() const { return (table_.flags & coord::kMoved) != 0; }
  std::optional<std::uint32_t> share_to_repeat(const std::vector<std::uint32_t>& members) const;
  std::optional<std::uint32_t> batch_to_repeat() const;
  Status evaluate_again();
  Status check_evaluated_again() const;

  // participant_heir.cpp: what it computes, beside what the dead has left of the share.
  bool recorded(std::uint32_t item) const;
  Status check_inherited(std::uint32_t item, const ShareOutput& here, std::uint64_t before);

  // participant_written.cpp: what one worker alone has written to the state.
  Status check_written();

  // participant_membership.cpp: who takes part next; heal().
  std::vector<coord::Member> wanted_joiners(const coord::Table& wish) const;
  void publish_table(const std::vector<coord::Member>& ready);
  void ring_newcomers(const std::vector<coord::Member>& joiners) const;
  bool settle_joiners();
  bool comes_from_elsewhere(const coord::Member& newcomer) const;
  void tell_crossing() const;
  void tell_late(std::uint64_t crossing, std::uint64_t waited_ns) const;
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
  JoinPatience patience_;
  bool changed_ = false;  // a death in this transaction
  Rank rank_{coord::kNewcomer};
  bool prefaulted_ = false;
  std::vector<std::byte> start_buffers_;
  std::vector<std::byte> spare_row_;  // of one virtual worker: what is there already goes here
  WrittenState written_;
  NotesPlan notes_plan_;
  SharesTwice twice_;
  bool doubted_ = false;  // that was not to be at its start
  bool compares_states_ = false;
  bool hashing_ = false;    // all of this transaction's shares note hashes of gradients, rows
  bool newcomers_ = false;  // somebody has come in since the last step
  std::int64_t hash_through_ = -1;  // that step, as somebody may not have proved itself by then
  Txn came_in_{0};                  // a newcomer's first transaction
  std::uint64_t evaluations_ = 0;   // since that, those of transactions that evaluate
  std::optional<std::uint32_t> repeated_batch_;  // of this evaluation
  comm::EvalCell repeated_{};
};

}  // namespace lockstep::transaction
