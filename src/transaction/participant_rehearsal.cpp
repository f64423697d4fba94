// The rehearsal: in some steps each share is computed twice, by two workers where there are two,
// and both must come to the same bits. It finds what a share must not depend on (a loader around
// run(), the rank, a counter, the clock) before a death would make other weights of it.
//
// The second computation gives nothing to the sums. It is agreed on as the shares are: the next
// live member after a share's owner computes it again, whoever has died meanwhile.
#include <ATen/CPUGeneratorImpl.h>

#include <bit>

#include "base/log.h"
#include "transaction/participant.h"
#include "transaction/rows.h"
#include "transaction/share_comparison.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {
namespace {

// What the step's shares have left in PyTorch's default generator stays as it is.
class GeneratorKept {
 public:
  GeneratorKept()
      : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  ~GeneratorKept() { generator_.set_state(state_); }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

constexpr const char* kWhatItMayDependOn =
    ". A share's loss may depend on the train state and on its Share alone: batch(), "
    "virtual_worker(), epoch(), step(), global_step(), micro_batch(), update(), carried(), and "
    "PyTorch's default generator, which is seeded by them; it must not write to its batch. A data "
    "loader of one's own around run(), the rank, a counter, the clock and other generators are not "
    "the same for "
    "whoever computes a share after a death (--rehearse 0 leaves this comparison out; then equal "
    "weights are not promised)";

}  // namespace

std::uint32_t Participant::rehearser(std::uint32_t item) const {
  const coord::Ownership& ownership = exchange_->ownership();
  const auto members = static_cast<std::uint32_t>(table_.members.size());
  const std::uint32_t owner = ownership.owner(item);
  std::uint32_t next = (owner + 1) % members;
  while (next != owner && !ownership.alive(next)) next = (next + 1) % members;
  return next;
}

bool Participant::rehearsed(std::uint32_t item) const {
  return notes(item).again_mark().load(std::memory_order_acquire) >= next_.value() + 1;
}

// All records are marked. In a step that is rehearsed anyway, or by now, there is nothing to doubt.
bool Participant::has_doubts() {
  if (rehearsing_ || !program_.is_step(next_)) return false;
  const std::string doubt = program_.doubt();
  if (doubt.empty() || overrun()) return false;
  log_once(program_.in_words(next_) + ": " + doubt +
               ". As long as they differ each share is computed twice, to see whether it matters",
           LogLevel::kWarning, "doubt");
  doubt_ = ". " + doubt;
  rehearsing_ = true;
  marked_ = 0;
  return true;
}

Status Participant::rehearse() {
  if (!rehearsing_) return {};
  for (std::uint32_t item = 0; item < program_.items(next_); ++item) {
    if (rehearser(item) != exchange_->self() || rehearsed(item)) continue;
    LOCKSTEP_TRY(rehearse_share(item));
    exchange_->progress();
  }
  exchange_->ring_members();
  return {};
}

// Into `scratch`, whose rows are the spare one, and to no sum.
Status Participant::compute_again(std::uint32_t item, ScratchOutput& scratch) {
  const GeneratorKept kept;
  transaction::ShareOutput& output = scratch.output();
  output.again = true;
  output.rows = spare_row_;
  if (!start_buffers_.empty()) load_buffers(state_, start_buffers_);
  reducer_->begin_rehearsal(item);
  reducer_->hash_gradients(output.notes.gradients());
  LOCKSTEP_TRY(program_.compute_share(next_, VirtualWorker(static_cast<int>(item)), output));
  return reducer_->end_share();
}

Status Participant::rehearse_share(std::uint32_t item) {
  ScratchOutput scratch(board_.plan(), notes_plan_);
  LOCKSTEP_TRY(compute_again(item, scratch));
  // While another death is being noticed two may do this, and write the same. One of them may have
  // to leave, and be late.
  if (rehearsed(item)) return {};
  const ShareNotes again = scratch.output().notes, notes = this->notes(item);
  for (std::size_t i = 0; i < again.gradients().size(); ++i)
    notes.again_gradients()[i].store(again.gradients()[i]);
  hash_row(state_, scratch.output().rows, notes.again_rows());
  notes.again_sums().write(again.sums().read());
  const ShareLoss loss = loss_of(scratch.output().record);
  notes.again_loss().store(std::bit_cast<std::uint64_t>(loss.mean), std::memory_order_relaxed);
  notes.again_count().store(loss.count, std::memory_order_relaxed);
  notes.again_ends().store(scratch.output().record.ends, std::memory_order_relaxed);
  notes.again_rank().store(static_cast<std::uint64_t>(rank_.value()), std::memory_order_relaxed);
  notes.again_mark().store(next_.value() + 1, std::memory_order_release);
  return {};
}

Status Participant::check_rehearsal() const {
  if (!rehearsing_) return {};
  for (std::uint32_t item = 0; item < program_.items(next_); ++item)
    LOCKSTEP_TRY(check_rehearsed(item));
  return {};
}

Status Participant::check_rehearsed(std::uint32_t item) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  const ShareNotes notes = this->notes(item);
  const ShareLoss loss = loss_of(record);
  const ShareLoss again{std::bit_cast<double>(notes.again_loss().load(std::memory_order_relaxed)),
                        notes.again_count().load(std::memory_order_relaxed)};
  const std::uint64_t first = notes.rank().load(std::memory_order_relaxed);
  const std::uint64_t second = notes.again_rank().load(std::memory_order_relaxed);
  const std::string in = " in rank " + std::to_string(first);
  const std::string when =
      first == second ? " when it is computed again there" : " in rank " + std::to_string(second);
  const std::string step = program_.in_words(next_) + ": ";
  const std::string why = doubt_.empty() ? kWhatItMayDependOn : doubt_;
  const std::string of = " of virtual worker " + std::to_string(item);
  if (!same_loss(loss, again))
    return Error{ErrorKind::kUsage, step + "the loss" + of + " is " + loss_text(loss) + in +
                                        " and " + loss_text(again) + when + why};
  if (const std::string other = first_difference(notes.sums().read(), notes.again_sums().read());
      !other.empty())
    return Error{ErrorKind::kUsage, step + "what virtual worker " + std::to_string(item) +
                                        " adds up as '" + other + "' is " +
                                        sum_text(notes.sums().read(), other) + in + " and " +
                                        sum_text(notes.again_sums().read(), other) + when + why};
  if (record.ends != notes.again_ends().load(std::memory_order_relaxed))
    return Error{ErrorKind::kUsage,
                 step + "the share" + of + (record.ends != 0 ? " ends the run" : " goes on") + in +
                     (record.ends != 0 ? " and does not" : " and ends the run") + when + why};
  // In the first of the steps that are doubted nothing else was noted of the first computation.
  if (notes.hashed_mark().load(std::memory_order_relaxed) != next_.value() + 1) return {};
  for (std::size_t i = 0; i < notes.gradients().size(); ++i)
    if (notes.gradients()[i].load(std::memory_order_relaxed) !=
        notes.again_gradients()[i].load(std::memory_order_relaxed))
      return Error{ErrorKind::kUsage, step + "the gradient of '" + reducer_->parameters()[i].name +
                                          "'" + of + " has other bits" + in + " than" + when +
                                          ", though its loss is the same, " + loss_text(loss) +
                                          why};
  for (std::size_t i = 0; i < notes.rows().size(); ++i)
    if (notes.rows()[i].load(std::memory_order_relaxed) !=
        notes.again_rows()[i].load(std::memory_order_relaxed))
      return Error{ErrorKind::kUsage, step + "what virtual worker " + std::to_string(item) +
                                          " carries as '" + state_.carried_rows()[i].name +
                                          "' has other bits" + in + " than" + when + why};
  return {};
}

}  // namespace lockstep::transaction
