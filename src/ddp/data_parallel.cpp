#include "lockstep/data_parallel.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <mutex>
#include <string>

#include "ddp/gather.h"
#include "ddp/replicas.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw DistributedError({ErrorKind::kUsage, "DataParallel: " + why});
}

// libtorch's default one, which random layers draw from.
class DefaultGenerator {
 public:
  at::Tensor state() const {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return generator_.get_state();
  }
  void set_state(const at::Tensor& state) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state);
  }
  void seed(std::uint64_t seed) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_current_seed(seed);
  }
  std::uint64_t draw() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return at::check_generator<at::CPUGeneratorImpl>(generator_)->random64();
  }

 private:
  mutable at::Generator generator_ = at::detail::getDefaultCPUGenerator();
};

}  // namespace

class DataParallelEngine::Impl {
 public:
  Impl(torch::nn::Module& module, int replicas, const std::function<torch::nn::Module&()>& make);
  at::Tensor forward(const std::vector<at::Tensor>& inputs, const Forward& call);

 private:
  std::vector<Chunk> cut(const std::vector<at::Tensor>& inputs) const;
  std::vector<ddp::Part> in_parallel(const std::vector<Chunk>& chunks, const Forward& call);
  std::vector<ddp::Part> one_by_one(const std::vector<Chunk>& chunks, const Forward& call);
  ddp::Part part(std::size_t replica, const Chunk& chunk, const Forward& call) const;

  ddp::Replicas replicas_;
  std::size_t count_;
  bool draws_ = false;  // the model was seen drawing random numbers
};

DataParallelEngine::Impl::Impl(torch::nn::Module& module, int replicas,
                               const std::function<torch::nn::Module&()>& make)
    : replicas_(module), count_(static_cast<std::size_t>(replicas)) {
  if (replicas < 1) refuse(std::to_string(replicas) + " replicas; at least 1");
  DefaultGenerator generator;
  const at::Tensor before = generator.state();
  for (int r = 0; r < replicas; ++r) replicas_.add(make());
  generator.set_state(before);
  replicas_.follow_module(count_);  // gives back the memory of their own values
}

// By replica, then by input.
std::vector<DataParallelEngine::Chunk> DataParallelEngine::Impl::cut(
    const std::vector<at::Tensor>& inputs) const {
  std::vector<Chunk> chunks;
  for (const at::Tensor& input : inputs) {
    if (input.dim() == 0 || input.size(0) != inputs.front().size(0) || input.size(0) == 0)
      refuse("an input of shape " + c10::str(input.sizes()) +
             " cannot be cut along dimension 0 like the first, of " +
             c10::str(inputs.front().sizes()));
    const std::vector<at::Tensor> pieces = input.chunk(static_cast<std::int64_t>(count_), 0);
    chunks.resize(pieces.size());
    for (std::size_t r = 0; r < pieces.size(); ++r) chunks[r].push_back(pieces[r]);
  }
  return chunks;
}

ddp::Part DataParallelEngine::Impl::part(std::size_t replica, const Chunk& chunk,
                                         const Forward& call) const {
  ddp::Part part;
  for (const at::Tensor& input : chunk)
    part.inputs.push_back(input.detach().set_requires_grad(input.requires_grad()));
  part.parameters = replicas_.parameters(replica);
  part.output = call(replica, part.inputs);
  if (part.output.dim() == 0)
    refuse("forward() gave a number; outputs are gathered along dimension 0");
  return part;
}

std::vector<ddp::Part> DataParallelEngine::Impl::in_parallel(const std::vector<Chunk>& chunks,
                                                             const Forward& call) {
  std::vector<ddp::Part> parts(chunks.size());
  ddp::in_threads(chunks.size(), [&](std::size_t r) { parts[r] = part(r, chunks[r], call); });
  return parts;
}

// Each replica's stream follows from one draw of the default generator, which a run seeds anew for
// each share of each step; afterwards it stands behind that draw.
std::vector<ddp::Part> DataParallelEngine::Impl::one_by_one(const std::vector<Chunk>& chunks,
                                                            const Forward& call) {
  DefaultGenerator generator;
  const std::uint64_t base = generator.draw();
  const at::Tensor after = generator.state();
  std::vector<ddp::Part> parts;
  for (std::size_t r = 0; r < chunks.size(); ++r) {
    generator.seed(base + r);
    parts.push_back(part(r, chunks[r], call));
  }
  generator.set_state(after);
  return parts;
}

// Threads that draw from one generator race for its numbers: such a forward counts for nothing, and
// is done again in order, from then on at once.
at::Tensor DataParallelEngine::Impl::forward(const std::vector<at::Tensor>& inputs,
                                             const Forward& call) {
  const std::vector<Chunk> chunks = cut(inputs);
  if (chunks.size() == 1) return call(count_, inputs);
  replicas_.follow_module(chunks.size());
  std::vector<ddp::Part> parts;
  if (!draws_) {
    DefaultGenerator generator;
    const at::Tensor before = generator.state();
    const auto buffers = replicas_.save_buffers();
    parts = in_parallel(chunks, call);
    draws_ = !generator.state().equal(before);
    if (draws_) {
      generator.set_state(before);
      replicas_.restore_buffers(buffers);
      replicas_.follow_module(chunks.size());
    }
  }
  if (draws_) parts = one_by_one(chunks, call);
  return ddp::gather(std::move(parts), replicas_.module_parameters(), inputs);
}

DataParallelEngine::DataParallelEngine(torch::nn::Module& module, int replicas,
                                       const std::function<torch::nn::Module&()>& make)
    : impl_(std::make_unique<Impl>(module, replicas, make)) {}
DataParallelEngine::DataParallelEngine(DataParallelEngine&&) noexcept = default;
DataParallelEngine::~DataParallelEngine() = default;
at::Tensor DataParallelEngine::forward(const std::vector<at::Tensor>& inputs,
                                       const Forward& forward) {
  return impl_->forward(inputs, forward);
}

}  // namespace lockstep
