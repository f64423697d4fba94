#include "train/committed_update.h"

#include <unordered_set>

#include "optim/grad_norm.h"
#include "train/lines.h"
#include "train/share_sums.h"

namespace lockstep::training {
namespace {

std::vector<const Optimizer*> optimizers_of(const TrainState& state, const OptimizerList& chosen) {
  std::vector<const Optimizer*> optimizers;
  for (const std::size_t number : chosen) optimizers.push_back(state.optimizers()[number]);
  return optimizers;
}

// All gradients of the update together; one that two optimizers have counts once.
std::vector<at::Tensor> parameters_of(const TrainState& state, const OptimizerList& chosen) {
  if (chosen.size() == 1) return state.optimizers()[chosen.front()]->parameters();
  std::vector<at::Tensor> parameters;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const std::size_t number : chosen)
    for (const at::Tensor& parameter : state.optimizers()[number]->parameters())
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
  return parameters;
}

}  // namespace

Status CommittedUpdate::read(Txn txn, const StepRecords& records,
                             transaction::Participant& participant) {
  const Position at = spec_.plan.at(txn);
  const std::string step = step_in_words(spec_.plan, txn);
  result_ = {};
  for (std::uint32_t v = 0; v < spec_.virtual_workers(); ++v)
    result_.sums += participant.notes(v).sums().read();
  LOCKSTEP_TRY(check_sum_names(step, result_.sums));
  not_finite_ = found_not_finite(records, participant);
  if (!not_finite_ || spec_.options.on_nan != OnNan::kStop) return {};
  return Error{ErrorKind::kBadData,
               step + " (epoch " + std::to_string(at.epoch) + ", step " + std::to_string(at.step) +
                   "): " + *not_finite_ +
                   "; stopped before its update (--on-nan stop). Checkpoints are of before it"};
}

// Gradients under a GradScaler overflow now and then: that is its own business.
std::optional<std::string> CommittedUpdate::found_not_finite(
    const StepRecords& records, transaction::Participant& participant) const {
  if (auto loss = records.loss_not_finite()) return loss;
  if (state_.scaler() != nullptr) return std::nullopt;
  const std::string* const name = participant.reducer().first_not_finite();
  if (name == nullptr) return std::nullopt;
  return "the gradient of '" + *name + "' is not finite";
}

void CommittedUpdate::make(const StepRecords& records) {
  left_out_ = skipped() || !records.takes_part();
  rates_ = records.rates();
  const bool stepped = !left_out_ && step(records.optimizers());
  result_.loss = records.loss();
  result_.loss_mean = records.mean_loss();
  result_.left_out = why_left_out(records, stepped);
}

bool CommittedUpdate::step(const OptimizerList& chosen) {
  for (MasterWeights* masters : state_.master_weights()) masters->model_grads_to_master_grads();
  GradScaler* const scaler = state_.scaler();
  bool changed = scaler == nullptr;
  if (scaler != nullptr) scaler->unscale_(optimizers_of(state_, chosen));
  result_.grad_norm = grad_norm(chosen);
  for (const std::size_t number : chosen) {
    Optimizer& optimizer = *state_.optimizers()[number];
    if (scaler == nullptr)
      optimizer.step();
    else
      changed = scaler->step(optimizer) || changed;
  }
  if (scaler != nullptr) scaler->update();
  return changed;
}

std::optional<double> CommittedUpdate::grad_norm(const OptimizerList& chosen) const {
  const double most = spec_.options.clip_grad_norm;
  if (most > 0) return clip_grad_norm_(parameters_of(state_, chosen), most);
  if (!spec_.options.grad_norm) return std::nullopt;
  const at::Tensor norm = optim::total_norm(parameters_of(state_, chosen));
  return norm.defined() ? norm.item<double>() : 0;
}

LeftOut CommittedUpdate::why_left_out(const StepRecords& records, bool stepped) const {
  if (skipped()) return LeftOut::kNotFinite;
  if (!records.takes_part()) return LeftOut::kNoShare;
  return stepped ? LeftOut::kNo : LeftOut::kScaler;
}

}  // namespace lockstep::training
