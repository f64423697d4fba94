#include "train/shares.h"

#include <ATen/Context.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/guard.h"

namespace lockstep::train {

Result<std::unique_ptr<Shares>> Shares::make(const RunSpec& spec, const Hooks& hooks,
                                             const TrainState& state) {
  std::unique_ptr<Shares> self(new Shares(spec, hooks, state));
  LOCKSTEP_ASSIGN(self->loader_,
                  data::Loader::make(spec.train, spec.data_plan, {spec.options.prefetch_threads}));
  return self;
}

// With each checkpoint, and in what may be the last step.
bool Shares::compares(const Position& position) const {
  const std::int64_t every = spec_.options.checkpoint_every;
  return position.global_step + 1 == spec_.plan.total_steps() ||
         (hooks_.stop_when && position.step + 1 == spec_.plan.steps_per_epoch) ||
         (every > 0 && position.global_step % every == 0);
}

// Of the step's start, once for all own shares: buffers too are as they were then, whatever share
// was computed before.
std::uint64_t Shares::state_hash(Txn txn) {
  if (hashed_at_ != txn) hash_ = state_.xxh3();
  hashed_at_ = txn;
  return hash_;
}

Status Shares::compute(Participant& participant, Txn txn, VirtualWorker v,
                       coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  const Position position = spec_.plan.at(txn);
  record.state = compares(position) ? state_hash(txn) : 0;
  participant.enter(coord::Phase::kData, share);
  LOCKSTEP_ASSIGN(const data::Batch batch, batch_of(position, v));
  hint_next(participant, txn, share);
  record.ids_count = batch.ids.size();
  std::copy(batch.ids.begin(), batch.ids.end(), record.ids());
  const auto where = [&] {
    return "epoch " + std::to_string(position.epoch) + ", step " + std::to_string(position.step) +
           ", virtual worker " + std::to_string(v.value());
  };
  return guarded(where, ErrorKind::kInternal,
                 [&] { return forward_backward(participant, position, v, batch, record); });
}

Result<data::Batch> Shares::batch_of(const Position& position, VirtualWorker v) {
  LOCKSTEP_ASSIGN(
      data::Batch batch,
      loader_->get({{static_cast<std::uint64_t>(position.epoch), position.step}, v.value()}));
  const auto wanted = static_cast<std::size_t>(spec_.data_plan.batch_at(position.step));
  if (batch.ids.size() == wanted) return batch;
  return Error{ErrorKind::kUsage, "the data set was asked for " + std::to_string(wanted) +
                                      " samples and gave the ids of " +
                                      std::to_string(batch.ids.size()) +
                                      ": Batch::ids must be those that it was asked for"};
}

// Only hints: which share comes next changes with the membership, the batches never.
void Shares::hint_next(Participant& participant, Txn txn, std::uint32_t current) {
  if (spec_.options.prefetch_threads == 0) return;
  std::vector<data::ShareId> next;
  const auto add = [&](Txn t, std::uint32_t v) {
    const Position position = spec_.plan.at(t);
    if (t < spec_.plan.end() && position.kind == Kind::kStep)
      next.push_back({{static_cast<std::uint64_t>(position.epoch), position.step},
                      static_cast<std::int64_t>(v)});
  };
  const comm::Exchange& exchange = participant.exchange();
  const auto& own = exchange.ownership().items_of(exchange.self());
  const auto at = std::find(own.begin(), own.end(), current);
  for (auto v = at == own.end() ? at : at + 1; v != own.end(); ++v) add(txn, *v);
  for (const std::uint32_t v : own) add(Txn(txn.value() + 1), v);
  loader_->prefetch(std::move(next));
}

Status Shares::forward_backward(Participant& participant, const Position& position, VirtualWorker v,
                                const data::Batch& batch, coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  // Dropout and its like: a stream of its own for each (seed, step, virtual worker).
  at::manual_seed(share_seed(spec_.options.seed, position.global_step, v));
  participant.enter(coord::Phase::kForward, share);
  Share part;
  part.virtual_worker_ = v.value();
  part.epoch_ = position.epoch;
  part.step_ = position.step;
  part.global_step_ = position.global_step;
  part.batch_ = &batch;
  const at::Tensor loss = hooks_.loss(part);
  if (loss.numel() != 1 || !loss.requires_grad())
    return Error{ErrorKind::kUsage,
                 "the loss function must return one number that depends on the model; got " +
                     std::to_string(loss.numel()) + " elements" +
                     (loss.requires_grad() ? "" : " without a graph")};
  participant.enter(coord::Phase::kBackward, share);
  loss.backward();
  const auto samples = static_cast<double>(batch.ids.size());
  record.loss_sum = loss.item<double>() * samples;
  record.loss_count = batch.ids.size();
  record.extra = optimizer_;
  record.ends = part.ends_ ? 1 : 0;
  record.rate = state_.optimizers()[optimizer_]->lr();
  record.rates = state_.optimizers()[optimizer_]->rates_hash();
  return {};
}

}  // namespace lockstep::train
