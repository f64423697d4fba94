#include "train/shares.h"

#include <ATen/Context.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/guard.h"
#include "base/hash.h"
#include "optim/closure.h"
#include "train/batches_of_one.h"
#include "train/given_optimizers.h"
#include "train/gradient_flags.h"
#include "train/lines.h"
#include "train/state_kept.h"

namespace lockstep::training {
namespace {

// After a closure, or in the place of what libtorch says of a graph whose parameters have changed.
Status check_kept(const StateKept& kept, const Status& computed,
                  const std::function<std::string()>& where) {
  if (!computed.ok() && computed.error().kind != ErrorKind::kInternal) return {};
  const std::string changed = kept.changed();
  if (changed.empty()) return {};
  return Error{ErrorKind::kUsage,
               where() + ": the closure has changed " + changed +
                   ", as an optimizer's step(), or max_norm of an Embedding, does. It only returns "
                   "the loss: what it writes to the train state the workers of other shares, and "
                   "newcomers, do not have. Updates are step.run({{optimizer, closure}, ...})'s; "
                   "what each update brings besides belongs to on_update(), what each step does "
                   "to the loop between next() and run()"};
}

}  // namespace

Result<std::unique_ptr<Shares>> Shares::make(const RunSpec& spec, const Hooks& hooks,
                                             const TrainState& state) {
  std::unique_ptr<Shares> self(new Shares(spec, hooks, state));
  if (spec.has_data()) {
    LOCKSTEP_ASSIGN(self->loader_,
                    data::Loader::make(spec.train, spec.data_plan,
                                       {.prefetch_threads = spec.options.prefetch_threads}));
  }
  return self;
}

// With each checkpoint, in what may be the last step, where records have the state's hash.
bool Shares::compares(const Position& position, bool anyway) const {
  if (position.update > 0) return false;
  return anyway || position.notes_state() || spec_.checkpoint_due(position) ||
         position.global_step + 1 == spec_.plan.total_steps() ||
         (hooks_.stop_when && position.step + 1 == spec_.plan.steps_per_epoch);
}

// Of the update's start, once for all shares: each begins from that, buffers too, whatever share
// was computed before. None where there is nothing to look at.
const std::vector<std::uint64_t>& Shares::state_hashes(Txn txn) {
  if (hashed_at_ != txn) hashes_ = state_.hashes();
  hashed_at_ = txn;
  return hashes_;
}

void Shares::note_state(Txn txn, const transaction::ShareOutput& output) {
  const std::vector<std::uint64_t>& hashes = state_hashes(txn);
  output.record.state = xxh3(std::as_bytes(std::span(hashes)));
  for (std::size_t i = 0; i < hashes.size(); ++i)
    output.notes.state()[i].store(hashes[i], std::memory_order_relaxed);
}

// Whoever inherits a share of which nothing else is there yet knows what the dead was given.
Status Shares::announce_choice(const ddp::Reducer& reducer, Txn txn,
                               const transaction::ShareOutput& output) {
  const transaction::ShareNotes& notes = output.notes;
  const std::uint64_t mark = txn.value() + 1;
  if (notes.choice_mark().load(std::memory_order_acquire) == mark) {
    LOCKSTEP_TRY(
        same_optimizers(state_, step_in_words(spec_.plan, txn),
                        {optimizers_of(output.record), "the worker that had this share before"},
                        {optimizers_, "this one"}));
    LOCKSTEP_TRY(check_inherited_flags(reducer, notes, spec_.plan, txn));
    heard_choice_ = true;
  }
  write_to(output.record, optimizers_);
  reducer.write_frozen(notes.frozen());
  notes.choice_mark().store(mark, std::memory_order_release);
  return {};
}

Status Shares::compute(transaction::Participant& participant, Txn txn, VirtualWorker v,
                       transaction::ShareOutput& output) {
  const Position position = spec_.plan.at(txn);
  coord::ShareRecord& record = output.record;
  LOCKSTEP_TRY(announce_choice(participant.reducer(), txn, output));
  record.state = 0;
  if (compares(position, participant.compares_states())) note_state(txn, output);
  const auto where = [&] {
    return (spec_.has_data() ? "epoch " + std::to_string(position.epoch) + ", " : "") + "step " +
           std::to_string(position.step) + ", virtual worker " + std::to_string(v.value());
  };
  record.ids_count = record.loss_count = record.ends = 0;
  record.loss_sum = record.correct = 0;
  rows_.begin_share(v.value());
  sums_.begin_share();
  // A pass over the whole state each time: not in each of many steps in which nobody takes part,
  // all of which are rehearsed.
  const bool rehearses =
      output.again && output.notes.idle_steps().load(std::memory_order_relaxed) == 0;
  const bool by_content =
      rehearses || position.global_step == 0 || position.is_early() || puts_back_;
  const StateKept kept(state_, by_content ? std::span(std::as_const(state_hashes(txn)))
                                          : std::span<const std::uint64_t>());
  for (std::int64_t k = 0; k < spec_.plan.batches_of(position.step); ++k) {
    participant.enter(coord::Phase::kData, static_cast<std::uint32_t>(v.value()));
    LOCKSTEP_ASSIGN(const data::Batch* const batch, batch_of(participant, txn, v, k, output.again));
    for (std::size_t i = 0; batch != nullptr && i < batch->ids.size(); ++i)
      record.add({batch->ids[i], batch->asked.empty() ? batch->ids[i] : batch->asked[i]});
    const Status computed = guarded(where, ErrorKind::kInternal, [&] {
      return forward_backward(participant, share_of(position, v, k, batch), record);
    });
    LOCKSTEP_TRY(check_kept(kept, computed, where));
    puts_back_ = puts_back_ || kept.put_back();
    if (!computed.ok()) return with_remedy(computed.error(), spec_);
  }
  batch_ = {};
  rows_.store(output.rows);
  output.notes.sums().write(sums_.sums());
  if (record.loss_count == 0) participant.reducer().take_no_part();
  record.rate = state_.optimizers()[optimizers_.front()]->lr();
  record.rates = rates_hash(state_, optimizers_);
  return {};
}

data::ShareId Shares::id_of(const Position& position, std::int64_t v, std::int64_t k) const {
  return {{static_cast<std::uint64_t>(position.epoch), spec_.plan.first_batch(position.step) + k},
          v};
}

Share Shares::share_of(const Position& position, VirtualWorker v, std::int64_t k,
                       const data::Batch* batch) {
  Share share;
  share.virtual_worker_ = v.value();
  share.epoch_ = position.epoch;
  share.step_ = position.step;
  share.global_step_ = position.global_step;
  share.update_ = position.update;
  share.seed_ = micro_batch_seed(spec_.options.seed, position.global_step, v, k);
  share.micro_batch_ = k;
  share.micro_batches_ = spec_.plan.batches_of(position.step);
  share.batch_ = batch;
  share.rows_ = &rows_;
  share.sums_ = &sums_;
  share.call_ = rows_.begin_call();
  return share;
}

// Of a step of several updates each batch is fetched once, unless its share is inherited. nullptr:
// the run has no data.
Result<const data::Batch*> Shares::batch_of(transaction::Participant& participant, Txn txn,
                                            VirtualWorker v, std::int64_t k, bool again) {
  if (loader_ == nullptr) return nullptr;
  const Position position = spec_.plan.at(txn);
  if (std::exchange(kept_step_, position.global_step) != position.global_step) kept_.clear();
  const auto kept = kept_.find({v.value(), k});
  if (kept != kept_.end() && !again) return &kept->second;
  batch_ = {};  // before the next one is made
  LOCKSTEP_ASSIGN(batch_, fetch(position, v, k));
  hint_next(participant, txn, v, k);
  if (spec_.plan.updates_per_step == 1 || again) return &batch_;
  return &(kept_[{v.value(), k}] = std::exchange(batch_, {}));
}

Result<data::Batch> Shares::fetch(const Position& position, VirtualWorker v, std::int64_t k) {
  const data::ShareId id = id_of(position, v.value(), k);
  at::manual_seed(data_seed(spec_.options.seed, position.global_step, v, k));
  const std::string before = checked_draws_ ? "" : data::default_generator_state();
  LOCKSTEP_ASSIGN(data::Batch batch, loader_->get(id));
  if (!std::exchange(checked_draws_, true)) LOCKSTEP_TRY(check_draws(before));
  return batch;
}

// The generator is the process's: in threads of their own, beside the model, batches cannot draw
// what they would elsewhere. No thread has begun before the first batch.
Status Shares::check_draws(const std::string& before) const {
  if (spec_.options.prefetch_threads == 0 || data::default_generator_state() == before) return {};
  return Error{ErrorKind::kUsage,
               "prefetch_threads is " + std::to_string(spec_.options.prefetch_threads) +
                   ", but the data set draws from PyTorch's default generator, which the model "
                   "uses meanwhile: set it to 0, or draw from a generator of its own, seeded by "
                   "Pass and the sample's id"};
}

// Only hints: which share comes next changes with the membership, the batches never.
void Shares::hint_next(transaction::Participant& participant, Txn txn, VirtualWorker current,
                       std::int64_t k) {
  if (spec_.options.prefetch_threads == 0) return;
  std::vector<data::ShareId> next;
  const auto add = [&](Txn t, std::uint32_t v, std::int64_t from) {
    const Position position = spec_.plan.at(t);
    if (t >= spec_.plan.end() || position.kind != Kind::kStep) return;
    for (std::int64_t i = from; i < spec_.plan.batches_of(position.step); ++i)
      if (t != txn || !kept_.contains({static_cast<int>(v), i}))
        next.push_back(id_of(position, v, i));
  };
  const comm::Exchange& exchange = participant.exchange();
  const auto& own = exchange.ownership().items_of(exchange.self());
  const auto share = static_cast<std::uint32_t>(current.value());
  add(txn, share, k + 1);
  const auto at = std::find(own.begin(), own.end(), share);
  for (auto v = at == own.end() ? at : at + 1; v != own.end(); ++v) add(txn, *v, 0);
  const std::int64_t left = spec_.plan.updates_per_step - spec_.plan.at(txn).update;
  for (const std::uint32_t v : own) add(Txn(txn.value() + static_cast<std::uint64_t>(left)), v, 0);
  loader_->prefetch(std::move(next));
}

Status Shares::forward_backward(transaction::Participant& participant, Share part,
                                coord::ShareRecord& record) {
  const auto v = static_cast<std::uint32_t>(part.virtual_worker());
  // Dropout and its like: a stream of its own, whatever making the batch has drawn.
  at::manual_seed(update_seed(part.seed(), part.update()));
  participant.enter(coord::Phase::kForward, v);
  const std::uint64_t seen = participant.reducer().gradients_seen();
  const at::Tensor loss = [&] {
    const optim::ClosureScope scope;
    return (*loss_)(part);
  }();
  asked_for_batch_ = asked_for_batch_ || part.asked_;
  if (participant.reducer().gradients_seen() != seen)
    return Error{ErrorKind::kUsage,
                 "backward() in a step's closure, which only returns the loss: gradients are "
                 "step.run()'s; leave it out"};
  record.ends |= part.ends_ ? 1 : 0;
  if (!loss.defined()) {
    if (!hooks_.loss) return {};
    return Error{ErrorKind::kUsage,
                 "the loss function must return one number that depends on the model; got an "
                 "undefined tensor. A share that takes no part in an update is Step::run()'s"};
  }
  if (loss.numel() != 1 || !loss.requires_grad())
    return Error{ErrorKind::kUsage,
                 "the loss function must return one number that depends on the model; got " +
                     (loss.numel() == 1 ? "one" : std::to_string(loss.numel()) + " elements") +
                     (loss.requires_grad() ? "; return their mean()"
                                           : " without a graph, as after detach() or item(), or "
                                             "where all that it depends on is frozen")};
  participant.enter(coord::Phase::kBackward, v);
  const std::int64_t batches = part.micro_batches();
  participant.reducer().more_backwards(part.micro_batch() + 1 < batches);
  const at::Tensor part_of_mean = batches > 1 ? loss.div(at::Scalar(batches)) : loss;
  const GradScaler* const scaler = state_.scaler();
  (scaler != nullptr ? scaler->scale(part_of_mean) : part_of_mean).backward();
  const std::size_t samples = part.batch_ == nullptr ? 1 : part.batch_->ids.size();
  record.loss_sum += loss.item<double>() * static_cast<double>(samples);
  record.correct += part.correct_;
  record.loss_count += samples;
  return {};
}

}  // namespace lockstep::training
