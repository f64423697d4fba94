#include "train/carried_rows.h"

#include <ATen/core/grad_mode.h>

#include <sstream>

#include "base/guard.h"
#include "checkpoint/tensors.h"
#include "lockstep/step.h"
#include "optim/closure.h"
#include "transaction/rows.h"

namespace lockstep::training {
namespace {

std::string tensor_in_words(const at::Tensor& tensor) {
  std::ostringstream words;
  words << tensor.sizes() << " " << tensor.scalar_type();
  return words.str();
}

}  // namespace

Status open_rows(const RunSpec& spec, TrainState& state) {
  for (const TrainState::Named& carried : state.carried_rows()) {
    const std::string what = "carried '" + carried.name + "': ";
    if (!checkpoint::dtype_of(carried.tensor.scalar_type()))
      return Error{ErrorKind::kUsage, what + "checkpoints have no tensors like this row, " +
                                          tensor_in_words(carried.tensor)};
    if (spec.options.new_virtual_workers)
      return Error{ErrorKind::kUsage,
                   what +
                       "a row is of one virtual worker, so a run with rows goes on with the number "
                       "of virtual workers that it has, and --new-virtual-workers is refused; "
                       "another number of workers (--nproc-per-node) is no matter"};
  }
  return state.open_carried(static_cast<std::int64_t>(spec.virtual_workers()));
}

std::string rows_in_words(const TrainState& state) {
  std::string words;
  for (const TrainState::Named& carried : state.carried_rows())
    words += (words.empty() ? "" : ", ") + carried.name + " " +
             tensor_in_words(carried.tensor.select(0, 0));
  return words;
}

void CarriedRows::begin_share(std::int64_t virtual_worker) {
  virtual_worker_ = virtual_worker;
  carried_.assign(state_.carried_rows().size(), {});
}

at::Tensor CarriedRows::row(std::size_t number) const {
  if (carried_[number].defined()) return carried_[number];
  return state_.carried_rows()[number].tensor.select(0, virtual_worker_);
}

static std::size_t number_or_thrown(const TrainState& state, const std::string& name) {
  const Result<std::size_t> number = state.carried_number(name);
  if (!number.ok()) throw Thrown(number.error());
  return *number;
}

at::Tensor CarriedRows::read(const std::string& name) const {
  const at::NoGradGuard no_grad;
  return row(number_or_thrown(state_, name)).clone();
}

void CarriedRows::write(const std::string& name, const at::Tensor& next) {
  const std::size_t number = number_or_thrown(state_, name);
  const at::Tensor now = row(number);
  const bool fits = next.defined() && next.layout() == at::kStrided &&
                    next.device() == now.device() && next.sizes() == now.sizes() &&
                    next.scalar_type() == now.scalar_type();
  if (!fits)
    throw Thrown({ErrorKind::kUsage, "Share::carry(\"" + name + "\") with " +
                                         (next.defined() ? "a tensor of " + tensor_in_words(next) +
                                                               " on " + next.device().str()
                                                         : "an undefined tensor") +
                                         "; the row that add_carried() was given is " +
                                         tensor_in_words(now) + " on " + now.device().str()});
  const at::NoGradGuard no_grad;
  carried_any_ = true;
  carried_[number] = next.detach().clone(at::MemoryFormat::Contiguous);
}

void CarriedRows::store(std::span<std::byte> block) const {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < carried_.size(); ++i) rows.push_back(row(i));
  transaction::store_row(rows, block);
}

}  // namespace lockstep::training

namespace lockstep {

void Share::check_call(const char* call, const char* elsewhere) const {
  if (rows_ != nullptr && optim::in_closure() && rows_->call() == call_) return;
  throw Thrown({ErrorKind::kUsage,
                std::string(call) +
                    " outside of the share's closure: it is a part of what the share computes, for "
                    "as long as run() calls the closure with it. " +
                    elsewhere});
}

training::CarriedRows& Share::rows(const char* call) const {
  check_call(call, "TrainState::carried() has all rows, for the loop's own code");
  return *rows_;
}

at::Tensor Share::carried(const std::string& name) const {
  return rows("Share::carried()").read(name);
}

void Share::carry(const std::string& name, const at::Tensor& next) {
  rows("Share::carry()").write(name, next);
}

}  // namespace lockstep
