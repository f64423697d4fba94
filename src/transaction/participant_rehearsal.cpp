// The rehearsal: in some steps each share is computed twice, in some others one of them, by two
// workers where there are two, and both must come to the same bits. It finds what a share must not
// depend on (a loader around run(), the rank, a counter, the clock; what its worker keeps from step
// to step) before a death would make other weights of it.
//
// The second computation gives nothing to the sums. It is agreed on as the shares are: the next
// live member of the host after a share's owner computes it again, whoever has died meanwhile; a
// newcomer's, until it has proved itself, one that has (participant_newcomer.cpp). A board knows
// the dead of its own host alone, so hosts look at their own shares, each by itself, and at
// newcomers' of others.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "transaction/again_claim.h"
#include "transaction/causes.h"
#include "transaction/participant.h"
#include "transaction/rows.h"
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

}  // namespace

// As this board has it.
ShareMarks Participant::share_marks(std::uint32_t item) const {
  const std::uint64_t mark = next_.value() + 1;
  const ShareNotes notes = this->notes(item);
  const bool recorded = this->recorded(item);
  return {recorded, notes.rank().load(std::memory_order_relaxed), unproved(item),
          notes.again_mark().load(std::memory_order_acquire) >= mark,
          !table_.hosts.empty() &&
              exchange_->judged_mark(item).load(std::memory_order_acquire) >= mark};
}

Repeats Participant::repeats() const {
  return {table_, exchange_->ownership(), exchange_->self(), twice_,
          [this](std::uint32_t item) { return share_marks(item); }};
}

// All records are marked. In a step that is rehearsed anyway, or by now, there is nothing to doubt.
bool Participant::has_doubts() {
  if (!program_.is_step(next_) || std::ranges::count(twice_.here, false) == 0) return false;
  const std::string doubt = program_.doubt();
  if (doubt.empty() || overrun()) return false;
  log_once(program_.in_words(next_) + ": " + doubt +
               ". As long as they differ each share is computed twice, to see whether it matters",
           LogLevel::kWarning, "doubt");
  doubted_ = true;
  twice_.here.assign(twice_.here.size(), true);
  return true;
}

// All records are marked. What ends the run (a counter of the loop's, which a newcomer has
// otherwise) nothing later would show.
bool Participant::has_ends() {
  if (!program_.is_step(next_) || !program_.promised()) return false;
  bool any = false;
  for (std::uint32_t item = 0; item < twice_.here.size(); ++item) {
    const bool ends = board_.record(next_, VirtualWorker(static_cast<int>(item))).ends != 0;
    if (!ends || twice_.here[item] || overrun()) continue;
    twice_.here[item] = any = true;
  }
  return any;
}

// One that has to be judged itself waits until all records are marked: what it has computed again
// nobody computes once more.
Status Participant::rehearse(bool all_marked) {
  if (!program_.is_step(next_) || (!all_marked && program_.must_prove(next_))) return {};
  const Repeats repeats = this->repeats();
  bool any = false;
  for (std::uint32_t item = 0; item < twice_.here.size(); ++item) {
    if (!repeats.is_mine(item, all_marked)) continue;
    if (unproved(item)) tell_unvouched();
    LOCKSTEP_ASSIGN(const bool counts, rehearse_share(item));
    if (counts && repeats.is_judged(item)) LOCKSTEP_TRY(tell_judged(item));
    exchange_->progress();
    any = true;
  }
  if (any) exchange_->ring_members();
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

// False: somebody else has done it.
Result<bool> Participant::rehearse_share(std::uint32_t item) {
  ScratchOutput scratch(board_.plan(), notes_plan_);
  LOCKSTEP_TRY(compute_again(item, scratch));
  // While another death is being noticed two may do this. One of them may have to leave, and be
  // late.
  const ShareNotes again = scratch.output().notes, notes = this->notes(item);
  const auto is_alive = [&](std::uint32_t member) { return exchange_->ownership().alive(member); };
  if (!AgainClaim(notes.again_claim()).take(next_, exchange_->self(), is_alive)) return false;
  if (repeats().done(item)) return false;  // by one that has died since
  for (std::size_t i = 0; i < again.gradients().size(); ++i)
    notes.again_gradients()[i].store(again.gradients()[i]);
  hash_row(state_, scratch.output().rows, notes.again_rows());
  hash_buffers(state_, notes.again_buffers());
  notes.again_sums().write(again.sums().read());
  const ShareLoss loss = loss_of(scratch.output().record);
  notes.again_loss().store(std::bit_cast<std::uint64_t>(loss.mean), std::memory_order_relaxed);
  notes.again_count().store(loss.count, std::memory_order_relaxed);
  notes.again_ends().store(scratch.output().record.ends, std::memory_order_relaxed);
  notes.again_rank().store(static_cast<std::uint64_t>(rank_.value()), std::memory_order_relaxed);
  notes.again_mark().store(next_.value() + 1, std::memory_order_release);
  return true;
}

Status Participant::check_rehearsal() const {
  const Repeats repeats = this->repeats();
  for (std::uint32_t item = 0; item < twice_.here.size(); ++item)
    if (repeats.compared_here(item)) LOCKSTEP_TRY(check_rehearsed(item));
  return {};
}

// For people; `rank`: of this transaction's table.
std::string Participant::in_rank(std::uint64_t rank) const {
  std::string text = "in rank " + std::to_string(rank);
  if (table_.hosts.size() > 1 && rank < table_.members.size())
    text += " on node " + std::to_string(coord::stay_of(table_.members[rank].uid).host);
  return text;
}

std::string Participant::in_own_rank() const {
  return in_rank(static_cast<std::uint64_t>(rank_.value()));
}

// Whose record it is.
ComputedShare Participant::computed_first(std::uint32_t item) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  const ShareNotes notes = this->notes(item);
  ComputedShare share{in_rank(notes.rank().load(std::memory_order_relaxed)),
                      notes.training(),
                      {},
                      loss_of(record),
                      {},
                      notes.sums().read(),
                      record.ends != 0,
                      {},
                      {}};
  // Not of one that is doubted for the first time.
  if (notes.hashed_mark().load(std::memory_order_relaxed) != next_.value() + 1) return share;
  share.gradients = notes.gradients();
  share.rows = notes.rows();
  share.buffers = notes.buffers();
  return share;
}

// Its worker's modes are in the notes of a share of its own.
ComputedShare Participant::computed_again(std::uint32_t item) const {
  const ShareNotes notes = this->notes(item);
  const std::uint64_t rank = notes.again_rank().load(std::memory_order_relaxed);
  ComputedShare share;
  share.where = in_rank(rank);
  if (notes.rank().load(std::memory_order_relaxed) == rank)
    share.where = "when it is computed again there";
  if (const auto own = item_of(rank)) share.training = this->notes(*own).training();
  share.loss = {std::bit_cast<double>(notes.again_loss().load(std::memory_order_relaxed)),
                notes.again_count().load(std::memory_order_relaxed)};
  share.gradients = notes.again_gradients();
  share.sums = notes.again_sums().read();
  share.ends = notes.again_ends().load(std::memory_order_relaxed) != 0;
  share.rows = notes.again_rows();
  share.buffers = notes.again_buffers();
  return share;
}

NamesOfWords Participant::names_of_words() const {
  const auto quoted = [](const std::string& name) { return "'" + name + "'"; };
  return {[this](std::size_t i) { return program_.module_in_words(i); },
          [this](std::size_t i) { return state_.part_in_words(i); },
          [=, this](std::size_t i) { return quoted(reducer_->parameters()[i].name); },
          [=, this](std::size_t i) { return quoted(state_.carried_rows()[i].name); },
          [=, this](std::size_t i) { return "the buffer " + quoted(state_.buffers()[i].name); }};
}

Status Participant::check_rehearsed(std::uint32_t item) const {
  const auto differs =
      first_difference(computed_first(item), computed_again(item), item, names_of_words());
  if (!differs) return {};
  const ShareNotes notes = this->notes(item);
  const bool other = notes.rank().load(std::memory_order_relaxed) !=
                     notes.again_rank().load(std::memory_order_relaxed);
  const Circumstances in{other ? Again::kOtherWorker : Again::kSameWorker,
                         program_.global_step(next_) == 0, options_.hooks};
  return Error{ErrorKind::kUsage,
               program_.in_words(next_) + ": " + differs->text + causes_of(*differs, in)};
}

}  // namespace lockstep::transaction
