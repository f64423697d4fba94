#include "ddp/reducer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "ddp/dtype.h"

namespace lockstep::ddp {
namespace {

// Elements lie as those of `like` do, so that neither reading nor writing turns them around.
at::Tensor over(std::byte* memory, const at::Tensor& like) {
  const at::TensorOptions options = like.options().requires_grad(false);
  return like.is_non_overlapping_and_dense()
             ? at::from_blob(memory, like.sizes(), like.strides(), options)
             : at::from_blob(memory, like.sizes(), options);
}

constexpr std::uint64_t kNoGradient = 1;  // in the place of a hash

std::uint64_t hash_of(const at::Tensor& gradient) {
  const at::Tensor elements = gradient.contiguous();
  return xxh3({static_cast<const std::byte*>(elements.const_data_ptr()), elements.nbytes()});
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.is_non_overlapping_and_dense() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

}  // namespace

class Reducer::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(Reducer& reducer, std::size_t index) : reducer_(reducer), index_(index) {}
  void operator()(const at::Tensor&) override { reducer_.on_gradient(index_); }

 private:
  Reducer& reducer_;
  std::size_t index_;
};

Result<std::unique_ptr<Reducer>> Reducer::create(std::vector<Parameter> parameters,
                                                 const ReducerOptions& options) {
  std::vector<at::TensorImpl*> seen;  // a module that is there twice has each parameter once
  const auto summable = [](const Parameter& p) {
    return summed_dtype(p.tensor.scalar_type()) && p.tensor.device().is_cpu();
  };
  std::erase_if(parameters, [&](const Parameter& p) {
    at::TensorImpl* const tensor = p.tensor.unsafeGetTensorImpl();
    const bool may_want_one = options.may_freeze && p.optimizers != 0 && summable(p);
    if ((!p.tensor.requires_grad() && !may_want_one) ||
        std::find(seen.begin(), seen.end(), tensor) != seen.end())
      return true;
    seen.push_back(tensor);
    return false;
  });
  if (parameters.empty())
    return Error{ErrorKind::kUsage, "the model has no parameter that requires a gradient"};
  for (const Parameter& p : parameters)
    if (!summable(p))
      return Error{ErrorKind::kUsage,
                   "parameter '" + p.name + "': gradients of " +
                       std::string(toString(p.tensor.scalar_type())) + " on " +
                       p.tensor.device().str() +
                       " cannot be summed (float32, float64, bfloat16, float16 on the CPU can)"};
  // A frozen one that has never required a gradient has no place for hooks yet.
  for (const Parameter& p : parameters) torch::autograd::impl::materialize_autograd_meta(p.tensor);
  for (const Parameter& p : parameters)
    if (torch::autograd::impl::post_acc_grad_hooks(p.tensor) != nullptr)
      return Error{ErrorKind::kUsage,
                   "parameter '" + p.name +
                       "' has a hook after the accumulation of its gradient already, and there is "
                       "room for one: destroy the other DistributedDataParallel, Step or Trainer "
                       "of this module first"};
  return std::unique_ptr<Reducer>(new Reducer(std::move(parameters), options));
}

Reducer::Reducer(std::vector<Parameter> parameters, const ReducerOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      frozen_((parameters_.size() + 63) / 64) {
  std::vector<ParameterSpec> specs;
  for (const Parameter& p : parameters_)
    specs.push_back({*summed_dtype(p.tensor.scalar_type()),
                     static_cast<std::uint64_t>(p.tensor.numel()), p.optimizers});
  layout_ = assign_buckets(specs, options_.buckets);
  choose(~std::uint64_t{0});
  read_frozen();
  fired_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto hook = std::make_unique<Hook>(*this, i);
    hooks_.push_back(hook.get());
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].tensor, std::move(hook));
  }
}

Reducer::~Reducer() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    if (torch::autograd::impl::post_acc_grad_hooks(tensor).get() == hooks_[i])
      torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
  }
}

std::vector<comm::BucketSpec> Reducer::bucket_specs() const {
  std::vector<comm::BucketSpec> specs = layout_.buckets;
  if (options_.find_unused_parameters) specs.push_back({comm::DType::kFloat32, parameters_.size()});
  return specs;
}

void Reducer::attach(comm::Exchange& exchange) {
  exchange_ = &exchange;
  sums_.clear();
}

// Over the exchange's memory, which stays where it is.
const std::vector<at::Tensor>& Reducer::sums() {
  for (std::size_t i = sums_.size(); i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const Place place = layout_.places[i];
    auto* bucket = const_cast<std::byte*>(exchange_->sum(place.bucket).data());
    sums_.push_back(over(bucket + place.offset * parameter.element_size(), parameter));
  }
  return sums_;
}

void Reducer::choose(std::uint64_t optimizers) {
  if (optimizers == chosen_) return;
  chosen_ = optimizers;
  find_left_out();
}

Status Reducer::check_left_out() const {
  for (std::uint32_t b = 0; b < layout_.buckets.size(); ++b) {
    const std::optional<bool> left_out = exchange_->left_out(b);
    if (left_out && *left_out != std::ranges::binary_search(left_out_, b))
      return Error{ErrorKind::kInternal, "bucket " + std::to_string(b) +
                                             (*left_out ? " has no sum" : " has a sum") +
                                             ", against what this step's optimizers ask for"};
  }
  return {};
}

void Reducer::begin_share(FoldStep step) {
  step_ = std::move(step);
  rehearsal_ = false;
  begin();
}

void Reducer::begin_rehearsal(std::uint32_t leaf) {
  step_ = {leaf, {0, leaf}, {}, false};
  rehearsal_ = true;
  begin();
}

void Reducer::hash_gradients(std::span<coord::Word> hashes, bool there) {
  hashes_ = hashes;
  for (coord::Word& hash : hashes_)
    if (!there) hash.store(0, std::memory_order_relaxed);
}

Status Reducer::note_hash(std::size_t index, std::uint64_t hash) {
  if (hashes_.empty()) return {};
  coord::Word& word = hashes_[index];
  const std::uint64_t there = word.load(std::memory_order_relaxed);
  if (there == 0) word.store(hash, std::memory_order_relaxed);
  if (there == 0 || there == hash) return {};
  if (!other_gradient_) other_gradient_ = index;
  return Error{ErrorKind::kUsage, "the gradient of '" + parameters_[index].name +
                                      "' has other bits than where it was computed before"};
}

// What a backward of the loop's own has left would count in whoever's first share this is.
void Reducer::begin() {
  if (!options_.keep_gradients) clear_gradients();
  hashes_ = {};
  other_gradient_.reset();
  refused_ = {};
  in_share_ = true;
  more_ = several_ = absent_ = false;
  seen_ = 0;
  fired_.assign(parameters_.size(), false);
  missing_.clear();
  for (const auto& members : layout_.members)
    missing_.push_back(static_cast<std::uint32_t>(
        std::ranges::count_if(members, [&](std::uint32_t i) { return !frozen(i); })));
}

at::Tensor Reducer::region(std::size_t index, std::uint32_t leaf) {
  const Place place = layout_.places[index];
  const at::Tensor& parameter = parameters_[index].tensor;
  return over(exchange_->piece(leaf, place.bucket).data() + place.offset * parameter.element_size(),
              parameter);
}

void Reducer::on_gradient(std::size_t index) {
  if (!in_share_) return;  // a backward of the user's own, outside of any step
  const at::NoGradGuard no_grad;
  if (gradient_call_) gradient_call_(seen_ == 0);
  ++seen_;
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  if (!wanted(index))
    gradient.reset();
  else if (!more_ && gradient.defined())  // frozen behind the forward it has none: see all_fired()
    take(index);
}

void Reducer::take(std::size_t index) {
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  if (refused_.ok()) refused_ = refuse_sparse(index);
  if (refused_.ok() && !hashes_.empty()) refused_ = note_hash(index, hash_of(gradient));
  if (refused_.ok()) deposit(index, gradient);
  if (!options_.keep_gradients) gradient.reset();
}

Status Reducer::refuse_sparse(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  if (parameter.tensor.grad().layout() == at::kStrided) return {};
  return Error{
      ErrorKind::kUsage,
      "the gradient of '" + parameter.name +
          "' is sparse, and only dense ones are summed over workers: make its Embedding "
          "or EmbeddingBag with sparse(false), or turn it into a dense one in the forward"};
}

void Reducer::deposit(std::size_t index, const at::Tensor& gradient) {
  if (rehearsal_) {
    fired_[index] = true;
    return;
  }
  if (step_.into.empty()) {
    put(index, gradient);
  } else {
    at::Tensor value = gradient;
    for (const std::uint32_t leaf : step_.into) {
      at::Tensor sum = region(index, leaf);
      sum.add_(value);
      value = std::move(sum);
    }
  }
  fired_[index] = true;
  const std::uint32_t bucket = layout_.places[index].bucket;
  if (--missing_[bucket] == 0) bucket_done(bucket);
}

// A piece that is one leaf's gradient is lent as backward left it: what this worker sums of it is
// never copied.
void Reducer::put(std::size_t index, const at::Tensor& gradient) {
  const at::Tensor& parameter = parameters_[index].tensor;
  if (!step_.completes || !same_layout(gradient, parameter) ||
      gradient.scalar_type() != parameter.scalar_type()) {
    region(index, step_.leaf).copy_(gradient);
    return;
  }
  lent_.push_back(gradient);
  const Place place = layout_.places[index];
  exchange_->lend(step_.leaf, place.bucket, place.offset * parameter.element_size(),
                  {static_cast<const std::byte*>(gradient.const_data_ptr()), gradient.nbytes()});
}

void Reducer::bucket_done(std::uint32_t bucket) {
  if (!step_.completes) return;
  exchange_->publish(step_.node, bucket);
  exchange_->progress();
}

Status Reducer::end_share() {
  const at::NoGradGuard no_grad;
  const Status whole = share_is_whole();
  const Status kept = undo_flags();
  return whole.ok() ? kept : whole;
}

Status Reducer::share_is_whole() {
  for (std::size_t i = 0; several_ && i < parameters_.size(); ++i)  // not in the last backward
    if (wanted(i) && !fired_[i] && parameters_[i].tensor.grad().defined()) take(i);
  const bool zeros = options_.find_unused_parameters || absent_;
  for (std::size_t i = 0; zeros && refused_.ok() && i < parameters_.size(); ++i)
    if (wanted(i) && !fired_[i]) refused_ = note_hash(i, kNoGradient);
  if (!refused_.ok()) {
    in_share_ = false;
    return refused_;
  }
  if (zeros && !rehearsal_) {
    if (options_.find_unused_parameters) publish_used();
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (wanted(i) && !fired_[i]) deposit(i, at::zeros_like(parameters_[i].tensor));
  }
  in_share_ = false;
  return zeros ? Status() : all_fired();
}

void Reducer::publish_used() {
  const auto bucket = static_cast<std::uint32_t>(layout_.buckets.size());
  const auto count = static_cast<std::int64_t>(parameters_.size());
  const auto counters = [&](std::uint32_t leaf) {
    return at::from_blob(exchange_->piece(leaf, bucket).data(), {count}, at::kFloat);
  };
  at::Tensor used = at::zeros({count});
  for (std::int64_t i = 0; i < count; ++i)
    if (fired_[static_cast<std::size_t>(i)]) used[i] = 1.0F;
  if (step_.into.empty()) counters(step_.leaf).copy_(used);
  for (const std::uint32_t leaf : step_.into) {
    at::Tensor sum = counters(leaf);
    sum.add_(used);
    used = std::move(sum);
  }
  if (step_.completes) exchange_->publish(step_.node, bucket);
}

void Reducer::set_gradients() {
  const at::NoGradGuard no_grad;
  lent_.clear();
  const float* used = nullptr;
  if (options_.find_unused_parameters)
    used = reinterpret_cast<const float*>(
        exchange_->sum(static_cast<std::uint32_t>(layout_.buckets.size())).data());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i].tensor;
    at::Tensor& gradient = parameter.mutable_grad();
    if (!wanted(i)) {
      if (!options_.keep_gradients) gradient.reset();  // one from before the run, in a newcomer
      continue;
    }
    if (used != nullptr && used[i] == 0.0F) {
      if (!options_.keep_gradients) gradient.reset();
      continue;
    }
    const at::Tensor& sum = sums()[i];
    if (!options_.keep_gradients)
      gradient = options_.copy_gradients ? sum.clone() : sum;
    else if (gradient.defined())
      gradient.copy_(sum);
    else
      gradient = sum.clone();
  }
}

const std::string* Reducer::first_not_finite() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (wanted(i) && !exchange_->finite(layout_.places[i].bucket) &&
        !at::isfinite(sums()[i]).all().item<bool>())
      return &parameters_[i].name;
  return nullptr;
}

void Reducer::clear_gradients() {
  for (Parameter& p : parameters_) p.tensor.mutable_grad().reset();
}

}  // namespace lockstep::ddp
