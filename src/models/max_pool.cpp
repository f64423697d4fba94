#include "models/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "models/max_pool_rows.h"

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where the planes and rows of pictures are, and of their halves.
struct Planes {
  explicit Planes(const at::Tensor& pictures)
      : height(pictures.size(-2)), width(pictures.size(-1)), rows(height / 2), columns(width / 2) {
    count = pictures.numel() / (height * width);
  }
  // row(p, y): offsets of row y of plane p's half, and of the two rows that it is made of.
  template <class Row>
  void for_each_row(const Row& row) const {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        for (std::int64_t y = 0; y < rows; ++y)
          row((p * rows + y) * columns, (p * height + 2 * y) * width);
    });
  }
  std::int64_t height, width, rows, columns, count = 0;
};

at::Tensor halved(const at::Tensor& input) {
  const Planes planes(input);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape[shape.size() - 2] = planes.rows;
  shape.back() = planes.columns;
  at::Tensor out = at::empty(shape, input.options());
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  planes.for_each_row([&](std::int64_t half, std::int64_t whole) {
    halve_rows(from + whole, from + whole + planes.width, planes.columns, to + half);
  });
  return out;
}

at::Tensor gradient_of_halved(const at::Tensor& input, const at::Tensor& gradient) {
  const Planes planes(input);
  // An odd last row or column has no part in the output.
  const bool all = planes.height % 2 == 0 && planes.width % 2 == 0;
  at::Tensor out = all ? at::empty_like(input) : at::zeros_like(input);
  const float* from = input.const_data_ptr<float>();
  const float* of_half = gradient.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  planes.for_each_row([&](std::int64_t half, std::int64_t whole) {
    const std::int64_t next = whole + planes.width;
    spread_over_rows(from + whole, from + next, of_half + half, planes.columns, to + whole,
                     to + next);
  });
  return out;
}

// For derivatives of the gradient: libtorch's, which has them.
at::Tensor differentiable_gradient(const at::Tensor& input, const at::Tensor& gradient) {
  const at::Tensor places = std::get<1>(at::max_pool2d_with_indices(input, {2, 2}, {2, 2}));
  return at::max_pool2d_with_indices_backward(gradient, input, {2, 2}, {2, 2}, {0, 0}, {1, 1},
                                              false, places);
}

struct Halve : torch::autograd::Function<Halve> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    return halved(input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor input = context->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {differentiable_gradient(input, gradients[0])};
    return {gradient_of_halved(input, gradients[0].contiguous())};
  }
};

bool halves(const torch::nn::MaxPool2dOptions& options) {
  using Pair = std::array<std::int64_t, 2>;
  return *options.kernel_size() == Pair{2, 2} && *options.stride() == Pair{2, 2} &&
         *options.padding() == Pair{0, 0} && *options.dilation() == Pair{1, 1} &&
         !options.ceil_mode();
}

bool is_ours(const at::Tensor& input) {
  return input.device().is_cpu() && input.scalar_type() == at::kFloat &&
         (input.dim() == 3 || input.dim() == 4) && input.is_contiguous() && input.size(-1) >= 2 &&
         input.size(-2) >= 2 && input.numel() > 0 &&
         (input.dim() == 3 || input.suggest_memory_format() == at::MemoryFormat::Contiguous);
}

}  // namespace

MaxPool2dImpl::MaxPool2dImpl(const torch::nn::MaxPool2dOptions& settings)
    : torch::nn::MaxPool2dImpl(settings) {}

at::Tensor MaxPool2dImpl::forward(const at::Tensor& input) {
  return halves(options) && is_ours(input) ? Halve::apply(input)
                                           : torch::nn::MaxPool2dImpl::forward(input);
}

std::shared_ptr<torch::nn::Module> MaxPool2dImpl::clone(const std::optional<torch::Device>&) const {
  return std::make_shared<MaxPool2dImpl>(*this);
}

MaxPool2d halving_max_pool() { return MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)); }

}  // namespace lockstep::models
