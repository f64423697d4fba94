#include "ddp/gather.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"
#include "lockstep/ddp.h"

namespace lockstep::ddp {
namespace {

using torch::autograd::variable_list;

[[noreturn]] void refuse(const char* why) {
  throw DistributedError({ErrorKind::kUsage, std::string("DataParallel: ") + why});
}

at::Tensor concatenated(const std::vector<at::Tensor>& tensors) { return at::cat(tensors, 0); }

// A graph of its own for each part, so that their backwards need nothing of one another; this node
// stands for them in the graph of the loss.
class Gather : public torch::autograd::Node {
 public:
  Gather(std::vector<Part> parts, const variable_list& parameters, const variable_list& inputs)
      : Node(torch::autograd::collect_next_edges(parameters, inputs)),
        parts_(std::move(parts)),
        parameters_(parameters.size()),
        inputs_(inputs.size()) {}

  variable_list apply(variable_list&& gradients) override;
  void release_variables() override { parts_.clear(); }

 private:
  variable_list backward(const Part& part, const at::Tensor& gradient, bool keep_graph) const;
  at::Tensor input_gradient(const std::vector<variable_list>& found, std::size_t input) const;

  std::vector<Part> parts_;
  std::size_t parameters_, inputs_;
};

variable_list Gather::apply(variable_list&& gradients) {
  if (parts_.empty())
    refuse("a second backward through the same forward; the first must keep the graph");
  if (at::GradMode::is_enabled())
    refuse("backward with create_graph: there are no second derivatives");
  const bool keep_graph = torch::autograd::get_current_graph_task_keep_graph();
  std::vector<at::Tensor> gradient_of;  // by part
  std::int64_t at = 0;
  for (const Part& part : parts_) {
    gradient_of.push_back(gradients[0].narrow(0, at, part.output.size(0)));
    at += part.output.size(0);
  }
  std::vector<variable_list> found(parts_.size());
  in_threads(parts_.size(),
             [&](std::size_t r) { found[r] = backward(parts_[r], gradient_of[r], keep_graph); });
  variable_list sums;
  for (std::size_t i = 0; i < parameters_; ++i) {
    std::vector<at::Tensor> leaves;
    leaves.reserve(found.size());
    for (variable_list& part : found) leaves.push_back(std::move(part[i]));
    sums.push_back(tree_sum(std::move(leaves)));
  }
  for (std::size_t i = 0; i < inputs_; ++i) sums.push_back(input_gradient(found, i));
  return sums;
}

// One for each parameter, then for each input; undefined where the output does not depend on it.
variable_list Gather::backward(const Part& part, const at::Tensor& gradient,
                               bool keep_graph) const {
  variable_list wanted, all(parameters_ + inputs_);
  std::vector<std::size_t> places;
  const auto want = [&](const variable_list& leaves, std::size_t first) {
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].requires_grad()) {
        wanted.push_back(leaves[i]);
        places.push_back(first + i);
      }
  };
  want(part.parameters, 0);
  want(part.inputs, parameters_);
  variable_list found = torch::autograd::grad({part.output}, wanted, {gradient}, keep_graph,
                                              /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < found.size(); ++i) all[places[i]] = std::move(found[i]);
  return all;
}

at::Tensor Gather::input_gradient(const std::vector<variable_list>& found,
                                  std::size_t input) const {
  std::vector<at::Tensor> rows;
  bool any = false;
  for (std::size_t r = 0; r < found.size(); ++r) {
    const at::Tensor& own = found[r][parameters_ + input];
    any = any || own.defined();
    rows.push_back(own.defined() ? own : at::zeros_like(parts_[r].inputs[input]));
  }
  return any ? concatenated(rows) : at::Tensor();
}

}  // namespace

void in_threads(std::size_t count, const std::function<void(std::size_t)>& body) {
  const at::ThreadLocalState state;
  const bool autocast_cache = at::autocast::is_autocast_cache_enabled();  // not in `state`
  std::vector<std::exception_ptr> thrown(count);
  const auto run = [&](std::size_t r) {
    try {
      const at::ThreadLocalStateGuard guard(state);
      at::autocast::set_autocast_cache_enabled(autocast_cache);
      at::init_num_threads();  // else OpenMP's default, and other bits
      body(r);
    } catch (...) {
      thrown[r] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(count);
    const SignalsBlocked blocked;
    for (std::size_t r = 0; r < count; ++r) threads.emplace_back(run, r);
  }
  for (const std::exception_ptr& each : thrown)
    if (each) std::rethrow_exception(each);
}

at::Tensor tree_sum(std::vector<at::Tensor> leaves) {
  for (std::size_t step = 1; step < leaves.size(); step *= 2)
    for (std::size_t left = 0; left + step < leaves.size(); left += 2 * step) {
      at::Tensor& sum = leaves[left];
      const at::Tensor& other = leaves[left + step];
      if (!sum.defined())
        sum = other;
      else if (other.defined())
        sum = sum.add(other);
    }
  return leaves.empty() ? at::Tensor() : std::move(leaves.front());
}

at::Tensor gather(std::vector<Part> parts, const std::vector<at::Tensor>& parameters,
                  const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> outputs;
  bool differentiable = false;
  for (const Part& part : parts) {
    outputs.push_back(part.output.detach());
    differentiable = differentiable || part.output.requires_grad();
  }
  at::Tensor whole = concatenated(outputs);
  if (differentiable)
    torch::autograd::set_history(whole,
                                 std::make_shared<Gather>(std::move(parts), parameters, inputs));
  return whole;
}

}  // namespace lockstep::ddp
