// What a step's members compare of each share beside its sum and its record: words in the
// exchange's memory (comm::Exchange::notes()), or scratch ones that nobody reads.
//
//   words | sums | sums computed again | which parameters are frozen | which modules train
//         | hashes of the state's tensors | of the gradients
//         | of the rows that it carries | of the buffers that it leaves
//         | of these three computed again
//         | of what has been written to buffers and rows before the step (written_state.h)
//
// All but `choice_mark`, `hashing_mark`, `again_claim` and `again_mark` are vouched for by the
// share's record, or by `again_mark`; rank() and gradients() by `hashing_mark`, too.
// Ownership: a view. Threads: one writer at a time, as of the record; of what is computed again
// whoever holds `again_claim`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coord/board.h"
#include "transaction/noted_sums.h"

namespace lockstep::transaction {

struct NotesPlan {
  std::size_t state_tensors = 0, gradients = 0, rows = 0, buffers = 0, frozen = 0, training = 0;
  std::size_t words() const;
  std::size_t computed() const { return gradients + rows + buffers; }  // in each computation
};

class ShareNotes {
 public:
  ShareNotes(std::span<coord::Word> words, const NotesPlan& plan) : words_(words), plan_(plan) {}

  // txn + 1 before the share is computed, once its record has the optimizers that its worker was
  // given, and frozen() its flags, so that whoever inherits the share knows of them.
  coord::Word& choice_mark() const { return words_[kChoiceMark]; }
  // The steps before this one that changed nothing, in a row, as far as the share's worker knows.
  coord::Word& idle_steps() const { return words_[kIdleSteps]; }
  coord::Word& rank() const { return words_[kRank]; }  // that computed it
  // txn + 1: a newcomer that has not proved itself has computed it (participant_newcomer.cpp), in
  // the run since that transaction.
  coord::Word& unproved_mark() const { return words_[kUnprovedMark]; }
  coord::Word& came_in() const { return words_[kCameIn]; }
  // txn + 1 from when on each word of gradients() is 0 or the hash of what somebody has given, or
  // is about to give, to the sums; and where those, rows() and buffers() are complete.
  coord::Word& hashing_mark() const { return words_[kHashingMark]; }
  coord::Word& hashed_mark() const { return words_[kHashedMark]; }
  // txn + 1: written() has hashes.
  coord::Word& written_mark() const { return words_[kWrittenMark]; }

  // The rehearsal (participant_rehearsal.cpp): txn + 1 once the share was computed again, and by
  // whom, with which loss (its bits) of how many samples; 0: it took no part; as the record's
  // `ends`.
  coord::Word& again_mark() const { return words_[kAgainMark]; }
  coord::Word& again_claim() const { return words_[kAgainClaim]; }  // see AgainClaim
  coord::Word& again_rank() const { return words_[kAgainRank]; }
  coord::Word& again_loss() const { return words_[kAgainLoss]; }
  coord::Word& again_count() const { return words_[kAgainCount]; }
  coord::Word& again_ends() const { return words_[kAgainEnds]; }

  // What the share has added up by name.
  NotedSums sums() const { return NotedSums(words_.subspan(kWords, NotedSums::kWords)); }
  NotedSums again_sums() const {
    return NotedSums(words_.subspan(kWords + NotedSums::kWords, NotedSums::kWords));
  }

  // See ddp::Reducer::write_frozen().
  std::span<coord::Word> frozen() const { return words_.subspan(kFrozen, plan_.frozen); }
  // See training::TrainingModes.
  std::span<coord::Word> training() const {
    return words_.subspan(kFrozen + plan_.frozen, plan_.training);
  }
  std::span<coord::Word> state() const {
    return words_.subspan(kFrozen + plan_.frozen + plan_.training, plan_.state_tensors);
  }
  std::span<coord::Word> gradients() const { return words_.subspan(first(), plan_.gradients); }
  std::span<coord::Word> rows() const {
    return words_.subspan(first() + plan_.gradients, plan_.rows);
  }
  std::span<coord::Word> buffers() const {
    return words_.subspan(first() + plan_.gradients + plan_.rows, plan_.buffers);
  }
  std::span<coord::Word> again_gradients() const {
    return words_.subspan(again(), plan_.gradients);
  }
  std::span<coord::Word> again_rows() const {
    return words_.subspan(again() + plan_.gradients, plan_.rows);
  }
  std::span<coord::Word> again_buffers() const {
    return words_.subspan(again() + plan_.gradients + plan_.rows, plan_.buffers);
  }
  // Of buffers, then of rows; 0: nothing was written to it.
  std::span<coord::Word> written() const {
    return words_.subspan(again() + plan_.computed(), plan_.buffers + plan_.rows);
  }

 private:
  friend struct NotesPlan;
  enum Place : std::size_t {
    kChoiceMark,
    kIdleSteps,
    kRank,
    kUnprovedMark,
    kCameIn,
    kHashingMark,
    kHashedMark,
    kWrittenMark,
    kAgainMark,
    kAgainClaim,
    kAgainRank,
    kAgainLoss,
    kAgainCount,
    kAgainEnds,
    kWords
  };
  static constexpr std::size_t kFrozen = kWords + 2 * NotedSums::kWords;
  std::size_t first() const {
    return kFrozen + plan_.frozen + plan_.training + plan_.state_tensors;
  }
  std::size_t again() const { return first() + plan_.computed(); }
  std::span<coord::Word> words_;
  NotesPlan plan_;
};

inline std::size_t NotesPlan::words() const {
  return ShareNotes::kFrozen + frozen + training + state_tensors + 2 * computed() + buffers + rows;
}

// What one share's computation fills in.
struct ShareOutput {
  coord::ShareRecord& record;  // all but its mark
  ShareNotes notes;
  std::span<std::byte> rows = {};  // what it carries to its next step, see rows.h
  bool again = false;  // the rehearsal's second computation, which takes nothing from the first
};

// A record and notes that nobody reads; rows are the caller's.
class ScratchOutput {
 public:
  ScratchOutput(const coord::BoardPlan& board, const NotesPlan& plan)
      : memory_(coord::ShareRecord::bytes(board.ids_capacity)),
        words_(plan.words()),
        output_{*new (memory_.data()) coord::ShareRecord, ShareNotes(words_, plan)} {}
  ScratchOutput(const ScratchOutput&) = delete;
  ScratchOutput& operator=(const ScratchOutput&) = delete;
  ShareOutput& output() { return output_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<coord::Word> words_;
  ShareOutput output_;
};

}  // namespace lockstep::transaction
