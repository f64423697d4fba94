// What shares carry to their next step: a tensor for each name, with a row for each virtual worker.
#include <ATen/Functions.h>

#include <algorithm>

#include "lockstep/state.h"

namespace lockstep {
namespace {

Error carried_error(const std::string& name, const std::string& what) {
  return {ErrorKind::kUsage, "carried '" + name + "': " + what};
}

}  // namespace

Status TrainState::add_carried(const std::string& name, const at::Tensor& row) {
  if (carried_for_ != 0)
    return carried_error(name,
                         "add_carried() after the run was opened: a newcomer could not know of it. "
                         "Add it before Step::open() or Trainer::fit()");
  if (name.starts_with("lockstep."))
    return carried_error(name, "names that begin with 'lockstep.' are the library's own");
  if (!row.defined()) return carried_error(name, "the row is an undefined tensor");
  if (row.layout() != at::kStrided || !row.device().is_cpu())
    return carried_error(name, "a row is a dense tensor on the CPU, and this one is on " +
                                   row.device().str() +
                                   (row.layout() == at::kStrided ? "" : ", and not dense"));
  LOCKSTEP_TRY(claim(name));
  carried_.push_back({name, row.detach().clone(at::MemoryFormat::Contiguous)});
  return {};
}

Result<std::size_t> TrainState::carried_number(const std::string& name) const {
  std::string known;
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].name == name) return i;
    known += (i == 0 ? "it has '" : ", '") + carried_[i].name + "'";
  }
  return carried_error(name, "the train state has nothing carried by that name; " +
                                 (known.empty() ? "it has none: add_carried() before the run is "
                                                  "opened"
                                                : known));
}

Result<at::Tensor> TrainState::carried(const std::string& name) const {
  LOCKSTEP_ASSIGN(const std::size_t number, carried_number(name));
  if (carried_for_ != 0) return carried_[number].tensor;
  return carried_error(name,
                       "its rows are made when the run is opened, which knows how many virtual "
                       "workers there are: ask after Step::open()");
}

Status TrainState::open_carried(std::int64_t virtual_workers) {
  carried_for_ = virtual_workers;
  for (Named& carried : carried_) {
    const std::string full = "carried." + carried.name;
    if (std::ranges::count(other_tensors_, full, &Named::name) != 0)
      return carried_error(carried.name,
                           "the train state has another tensor named '" + full + "'; rename one");
    std::vector<std::int64_t> shape = carried.tensor.sizes().vec();
    shape.insert(shape.begin(), virtual_workers);
    carried.tensor = carried.tensor.unsqueeze(0).expand(shape).clone(at::MemoryFormat::Contiguous);
    other_tensors_.push_back({full, carried.tensor});
  }
  return {};
}

}  // namespace lockstep
