// What was written to the model's buffers and to carried rows since the last update, by anybody but
// a share: the loop, a hook, an optimizer of the program's own. An update gives all workers the
// buffers of virtual worker 0's share and the rows of all shares. So where one worker alone has
// written to them, or otherwise than the others, the state differs for one step, what the step has
// made of it lasts, and no later look at states finds it.
//
// Ownership: refers to the state. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "transaction/share_notes.h"

namespace lockstep::transaction {

// By number: buffers, then rows of all virtual workers.
class WrittenState {
 public:
  explicit WrittenState(const TrainState& state);

  // What has been written so far is the same in all workers, or put back: an evaluation.
  void settle();
  // The same, and nothing counts as written: the state was loaded, or an update has set it.
  void begin_anew();
  // What has been written since counts. A transaction begins, with buffers as `start` has them,
  // which outlives it.
  void look(std::span<const std::byte> start);

  // A hash of each that was written to, if any was.
  void note(const ShareNotes& notes, Txn txn);
  // Those that are noted and have other bits in this worker; of the same update.
  std::vector<std::size_t> others(const ShareNotes& notes, Txn txn);
  bool was_written(std::size_t number) const { return written_[number]; }
  std::string in_words(std::size_t number) const;

 private:
  std::uint64_t hash(std::size_t number);

  const TrainState& state_;
  std::vector<std::uint32_t> versions_;
  std::vector<bool> written_;
  std::vector<std::uint64_t> hashes_;  // 0: not made yet
  std::span<const std::byte> start_;
};

}  // namespace lockstep::transaction
