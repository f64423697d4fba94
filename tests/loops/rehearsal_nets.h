// The networks of rehearsal_worker.
#pragma once

#include <ATen/Functions.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace lockstep::test {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("last", last);
    register_module("idle", idle);
    register_module("spare", spare);
    spare->weight.requires_grad_(false);
    count = register_buffer("count", at::zeros({}));
  }
  at::Tensor forward(const at::Tensor& inputs) {
    return last(dropout(at::relu(norm(first(inputs)))));
  }
  torch::nn::Linear first{2, 4}, last{4, 1};
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Dropout dropout{0.5}, idle{0.5};
  torch::nn::Linear spare{torch::nn::LinearOptions(1, 1).bias(false)};  // not in the loss
  at::Tensor count;
};
TORCH_MODULE(Net);

// An embedding whose gradients are sparse: by its options, or by its own call.
struct TableImpl : torch::nn::Module {
  explicit TableImpl(bool sparse) : embedding(torch::nn::EmbeddingOptions(5, 2).sparse(sparse)) {
    register_module("embedding", embedding);
  }
  torch::nn::Embedding embedding;
};
TORCH_MODULE(Table);

}  // namespace lockstep::test
