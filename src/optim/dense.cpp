#include "optim/dense.h"

#include <torch/nn/modules/embedding.h>

namespace lockstep::optim {
namespace {

template <class Impl>
bool gives_sparse_gradients(const torch::nn::Module& module) {
  const auto* embedding = module.as<Impl>();
  return embedding != nullptr && embedding->options.sparse() && embedding->weight.requires_grad();
}

}  // namespace

Status check_dense(const torch::nn::Module& module, const std::string& prefix) {
  using torch::nn::EmbeddingBagImpl, torch::nn::EmbeddingImpl;
  if (gives_sparse_gradients<EmbeddingImpl>(module) ||
      gives_sparse_gradients<EmbeddingBagImpl>(module))
    return Error{ErrorKind::kUsage,
                 "'" + prefix +
                     "weight' has sparse gradients (sparse(true) of its Embedding or "
                     "EmbeddingBag), and only dense ones are summed over workers: make it with "
                     "sparse(false), which is the default"};
  for (const auto& child : module.named_children())
    LOCKSTEP_TRY(check_dense(*child.value(), prefix + child.key() + "."));
  return {};
}

}  // namespace lockstep::optim
