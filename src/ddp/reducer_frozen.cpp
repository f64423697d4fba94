// Which parameters have gradients, from share to share.
#include <algorithm>
#include <utility>

#include "ddp/reducer.h"

namespace lockstep::ddp {
namespace {

constexpr const char* kWhereToFreeze =
    ". A step's flags are those of its run()'s begin: call requires_grad_() between next() and "
    "run(), in every worker alike, as a function of step.global_step()";

}  // namespace

void Reducer::read_frozen() {
  if (!options_.may_freeze) return;
  std::vector<std::uint64_t> now(frozen_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].tensor.requires_grad()) now[i / 64] |= std::uint64_t{1} << i % 64;
  if (now == frozen_) return;
  frozen_ = std::move(now);
  find_left_out();
}

void Reducer::write_frozen(std::span<coord::Word> words) const {
  for (std::size_t i = 0; i < frozen_.size(); ++i)
    words[i].store(frozen_[i], std::memory_order_relaxed);
}

void Reducer::set_frozen(std::span<const coord::Word> words) {
  for (std::size_t i = 0; i < frozen_.size(); ++i)
    frozen_[i] = words[i].load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].tensor.requires_grad() == frozen(i))
      parameters_[i].tensor.set_requires_grad(!frozen(i));
  find_left_out();
}

void Reducer::find_left_out() {
  left_out_.clear();
  for (std::uint32_t b = 0; b < layout_.buckets.size(); ++b)
    if (std::ranges::none_of(layout_.members[b], [&](std::uint32_t i) { return wanted(i); }))
      left_out_.push_back(b);
}

Status Reducer::all_fired() const {
  std::string unused, frozen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!wanted(i) || fired_[i]) continue;
    std::string& names = parameters_[i].tensor.requires_grad() ? unused : frozen;
    names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  if (!frozen.empty() && options_.may_freeze)
    return Error{ErrorKind::kUsage,
                 "these parameters were frozen in the closure: " + frozen + kWhereToFreeze};
  if (!frozen.empty())
    return Error{ErrorKind::kUsage,
                 "these parameters were frozen after the module was wrapped: " + frozen +
                     ". Set requires_grad to false before the DistributedDataParallel is made, or "
                     "make it anew"};
  if (unused.empty()) return {};
  return Error{ErrorKind::kUsage,
               "these parameters got no gradient from the loss of virtual worker " +
                   std::to_string(step_.leaf) + " (of DistributedDataParallel: the rank): " +
                   unused + ". Use them in the forward; or freeze them, requires_grad false " +
                   (options_.may_freeze ? "from the start on or between next() and run()"
                                        : "before the DistributedDataParallel is made") +
                   "; or set find_unused_parameters, and they count as zeros"};
}

// Whoever computes the next share has the step's flags, whatever this one's closure has set: a GAN
// may freeze one of its networks for the other's loss.
Status Reducer::undo_flags() {
  std::string unfrozen;
  for (std::size_t i = 0; options_.may_freeze && i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    if (tensor.requires_grad() != frozen(i)) continue;
    if (frozen(i) && chosen(i)) unfrozen += (unfrozen.empty() ? "" : ", ") + parameters_[i].name;
    tensor.set_requires_grad(!frozen(i));
  }
  if (unfrozen.empty()) return {};
  return Error{ErrorKind::kUsage,
               "these parameters were unfrozen in the closure: " + unfrozen + kWhereToFreeze};
}

}  // namespace lockstep::ddp
