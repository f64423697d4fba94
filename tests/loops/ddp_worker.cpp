// ddp_worker CASE RUN_DIR: one rank of a test. Values have closed forms in the rank and the number
// of ranks, so each checks itself; the first wrong one is the error.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/ddp.h"
#include "lockstep/process_group.h"

namespace {

using lockstep::DdpOptions;
using lockstep::DistributedDataParallel;
using lockstep::ErrorKind;
using lockstep::ProcessGroup;
using lockstep::Status;

// loss = factor * sum(w) (+ sum(extra), where asked for); the buffer counts what forwards were
// given.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t size = 5) {
    w = register_parameter("w", at::full({size}, 1.0));
    extra = register_parameter("extra", at::full({3}, 1.0));
    seen = register_buffer("seen", at::zeros({1}));
  }
  at::Tensor forward(double factor, bool use_extra) {
    if (is_training()) {
      const at::NoGradGuard no_grad;
      seen.add_(factor);
    }
    const at::Tensor loss = (w * factor).sum();
    return use_extra ? loss + extra.sum() : loss;
  }
  at::Tensor w, extra, seen;
};
TORCH_MODULE(Net);

Status expect(const char* what, const at::Tensor& value, double wanted) {
  if (value.defined() && value.eq(wanted).all().item<bool>()) return {};
  return lockstep::Error{
      ErrorKind::kInternal,
      std::string(what) + ": wanted " + std::to_string(wanted) + ", got " +
          (value.defined() ? std::to_string(value.flatten()[0].item<double>()) : "no tensor")};
}

// Grads are means; without zero_grad they go on from the last mean; inside no_sync they stay local.
Status gradients(ProcessGroup& group) {
  const double mine = group.rank() + 1, mean = (group.world_size() + 1) / 2.0;
  DistributedDataParallel ddp(Net(), group);
  const auto& w = ddp.module()->w;
  ddp(mine, true).backward();
  LOCKSTEP_TRY(expect("first gradient", w.grad(), mean));
  LOCKSTEP_TRY(expect("gradient of extra", ddp.module()->extra.grad(), 1));
  ddp(mine, true).backward();
  LOCKSTEP_TRY(expect("accumulated gradient", w.grad(), 2 * mean));
  w.mutable_grad().reset();
  {
    const auto quiet = ddp.no_sync();
    ddp(mine, true).backward();
    LOCKSTEP_TRY(expect("gradient in no_sync", w.grad(), mine));
  }
  ddp(mine, true);  // a forward whose backward never comes
  ddp(mine, true).backward();
  LOCKSTEP_TRY(expect("gradient after no_sync", w.grad(), 2 * mean));
  w.mutable_grad().reset();
  const at::Tensor loss = ddp(mine, true);
  {
    const at::NoGradGuard no_grad;  // a target network's, say
    ddp(3 * mine, true);
  }
  loss.backward();
  return expect("gradient after a forward without any in between", w.grad(), mean);
}

Status buffers(ProcessGroup& group) {
  Net net;
  net->seen.fill_(7.0 + group.rank());
  {
    const at::NoGradGuard no_grad;
    net->w.fill_(3.0 + group.rank());
  }
  DistributedDataParallel ddp(net, group);
  LOCKSTEP_TRY(expect("rank 0's parameters", net->w, 3));
  LOCKSTEP_TRY(expect("rank 0's buffers", net->seen, 7));
  ddp(10.0 * (group.rank() + 1), true).backward();
  LOCKSTEP_TRY(expect("one's own buffer after forward", net->seen, 7 + 10.0 * (group.rank() + 1)));
  net->eval();
  {
    const at::NoGradGuard no_grad;
    ddp(1.0, true);
  }
  return expect("rank 0's buffer before the next forward", net->seen, 17);
}

Status two_modules(ProcessGroup& group) {
  const double mine = group.rank() + 1, mean = (group.world_size() + 1) / 2.0;
  DistributedDataParallel one(Net(), group);
  DistributedDataParallel other(Net(100000), group, {.bucket_cap_mb = 0.1});
  for (int step = 0; step < 20; ++step) {
    (one(mine, true) + other(2 * mine, true)).backward();
    LOCKSTEP_TRY(expect("first module", one.module()->w.grad(), mean));
    LOCKSTEP_TRY(expect("second module", other.module()->w.grad(), 2 * mean));
    one.module()->zero_grad();
    other.module()->zero_grad();
  }
  return {};
}

Status unused(ProcessGroup& group) {
  DistributedDataParallel ddp(Net(), group);
  ddp(1.0, false).backward();
  return lockstep::Error{ErrorKind::kInternal, "an unused parameter was passed over"};
}

// By the options, and by a call of its own.
struct TableImpl : torch::nn::Module {
  explicit TableImpl(bool sparse) : bag(torch::nn::EmbeddingBagOptions(5, 2).sparse(sparse)) {
    register_module("bag", bag);
  }
  at::Tensor forward(const at::Tensor& ids) {
    return at::embedding(bag->weight, ids, -1, false, /*sparse=*/true).sum();
  }
  torch::nn::EmbeddingBag bag;
};
TORCH_MODULE(Table);

Status sparse(ProcessGroup& group, bool by_options) {
  DistributedDataParallel ddp(Table(by_options), group);
  ddp(at::ones({3}, at::kLong)).backward();
  return lockstep::Error{ErrorKind::kInternal, "a sparse gradient was passed over"};
}

// Wraps it, takes a step, changes it and takes another, which must not go well.
template <class Change>
Status changed_late(ProcessGroup& group, Net net, const Change& change) {
  DistributedDataParallel ddp(net, group);
  ddp(1.0, true).backward();
  change(*net);
  ddp(1.0, true).backward();
  return lockstep::Error{ErrorKind::kInternal, "a late change was passed over"};
}

Net with_frozen_extra() {
  Net net;
  net->extra.set_requires_grad(false);
  return net;
}

Status frozen_late(ProcessGroup& group) {
  return changed_late(group, Net(), [](NetImpl& net) { net.extra.set_requires_grad(false); });
}

Status thawed_late(ProcessGroup& group) {
  return changed_late(group, with_frozen_extra(),
                      [](NetImpl& net) { net.extra.set_requires_grad(true); });
}

// As fine-tuning in two phases does it: no hook of the parameters that were wrapped fires any more.
Status swapped_late(ProcessGroup& group) {
  return changed_late(group, with_frozen_extra(), [](NetImpl& net) {
    net.extra.set_requires_grad(true);
    net.w.set_requires_grad(false);
  });
}

Status added_late(ProcessGroup& group) {
  return changed_late(group, Net(),
                      [](NetImpl& net) { net.register_parameter("late", at::full({2}, 1.0)); });
}

Status frozen_by_rank(ProcessGroup& group) {
  DistributedDataParallel ddp(group.rank() == 1 ? with_frozen_extra() : Net(), group);
  return {};
}

// A parameter's hook has one place: a second wrapper would take it from the first.
Status wrapped_twice(ProcessGroup& group) {
  const double mine = group.rank() + 1, mean = (group.world_size() + 1) / 2.0;
  Net net;
  {
    DistributedDataParallel ddp(net, group);
    const Status again = lockstep::catch_errors([&]() -> Status {
      DistributedDataParallel other(net, group);
      return {};
    });
    if (again.ok() || again.error().message.find("destroy the other") == std::string::npos)
      return lockstep::Error{ErrorKind::kInternal, "a module was wrapped twice"};
    ddp(mine, true).backward();
    LOCKSTEP_TRY(expect("the first one's gradient", net->w.grad(), mean));
  }
  net->zero_grad();
  DistributedDataParallel next(net, group);
  next(mine, true).backward();
  return expect("the next one's gradient", net->w.grad(), mean);
}

// A submodule under two names: the gradient is the sum over both uses, once.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    one = register_module("one", Net());
    register_module("other", one.ptr());
  }
  at::Tensor forward(double factor) { return one(factor, true) + one(factor, true); }
  Net one{nullptr};
};
TORCH_MODULE(Tied);

Status tied(ProcessGroup& group) {
  DistributedDataParallel ddp(Tied(), group);
  ddp(group.rank() + 1.0).backward();
  return expect("gradient of a tied weight", ddp.module()->one->w.grad(), group.world_size() + 1.0);
}

// As a GAN's discriminator is while its generator learns.
Status frozen_for_a_while(ProcessGroup& group) {
  const double mine = group.rank() + 1, mean = (group.world_size() + 1) / 2.0;
  DistributedDataParallel ddp(Net(), group);
  for (const bool on : {true, false, true}) {
    for (at::Tensor& parameter : ddp.parameters()) parameter.set_requires_grad(on);
    const at::Tensor input = at::ones({1}).set_requires_grad(true);
    ddp.module()->zero_grad();
    (ddp(mine, true) * input).sum().backward();
    LOCKSTEP_TRY(expect("gradient of the input", input.grad(), mine * 5 + 3));
    if (on) LOCKSTEP_TRY(expect("gradient", ddp.module()->w.grad(), mean));
    if (!on && ddp.module()->w.grad().defined())
      return lockstep::Error{ErrorKind::kInternal, "a frozen parameter has a gradient"};
  }
  return {};
}

// As many parameters as before, and all that were wrapped get gradients.
Status replaced_late(ProcessGroup& group) {
  DistributedDataParallel ddp(Tied(), group);
  ddp(1.0).backward();
  ddp.module()->replace_module("other", Net());
  ddp(1.0).backward();
  return lockstep::Error{ErrorKind::kInternal, "a module replaced late was passed over"};
}

// Unused everywhere: no gradient. Used by rank 0 alone: its mean with zeros.
Status unused_allowed(ProcessGroup& group) {
  DistributedDataParallel ddp(Net(), group, {.find_unused_parameters = true});
  ddp(1.0, false).backward();
  if (ddp.module()->extra.grad().defined())
    return lockstep::Error{ErrorKind::kInternal, "a parameter that no rank used has a gradient"};
  ddp(1.0, group.rank() == 0).backward();
  return expect("extra", ddp.module()->extra.grad(), 1.0F / static_cast<float>(group.world_size()));
}

Status different_modules(ProcessGroup& group) {
  DistributedDataParallel ddp(Net(group.rank() == 1 ? 6 : 5), group);
  return {};
}

Status collectives(ProcessGroup& group) {
  const int ranks = group.world_size();
  at::Tensor count = at::full({3}, group.rank() + 1, at::kLong);
  LOCKSTEP_TRY(group.all_reduce(count));
  LOCKSTEP_TRY(expect("sum of int64", count, ranks * (ranks + 1) / 2));
  at::Tensor strided = at::full({4, 3}, group.rank() + 1.0, at::kDouble).t();
  LOCKSTEP_TRY(group.all_reduce(strided));
  LOCKSTEP_TRY(expect("sum of a strided tensor", strided, ranks * (ranks + 1) / 2));
  at::Tensor any = at::full({2}, group.rank() == 0, at::kBool);
  LOCKSTEP_TRY(group.all_reduce(any));
  LOCKSTEP_TRY(expect("sum of bool", any, 1));
  at::Tensor expanded = at::ones({1}).expand({3});
  if (group.all_reduce(expanded).ok())
    return lockstep::Error{ErrorKind::kInternal, "a sum into memory that overlaps itself"};
  at::Tensor given = at::full({2, 2}, group.rank(), at::kInt).t();
  LOCKSTEP_TRY(group.broadcast(given, ranks - 1));
  LOCKSTEP_TRY(expect("broadcast", given, ranks - 1));
  LOCKSTEP_ASSIGN(const at::Tensor all, group.all_gather(at::full({2}, group.rank(), at::kByte)));
  for (int r = 0; r < ranks; ++r) LOCKSTEP_TRY(expect("all_gather", all[r], r));
  if (group.broadcast(given, ranks).ok())
    return lockstep::Error{ErrorKind::kInternal, "a broadcast from nobody"};
  return group.barrier();
}

// Rank 1 is killed in the first life of the group.
Status death(ProcessGroup& group) {
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const bool first_life = restarts == nullptr || std::string(restarts) == "0";
  DistributedDataParallel ddp(Net(), group);
  for (int step = 0; step < 10; ++step) {
    const at::Tensor loss = ddp(1.0, true);
    if (first_life && step == 5 && group.rank() == 1) ::raise(SIGKILL);
    loss.backward();
  }
  if (group.rank() == 0) std::printf("came to the end\n");
  return group.barrier();
}

Status run_case(const std::string& name, ProcessGroup& group) {
  if (name == "gradients") return gradients(group);
  if (name == "buffers") return buffers(group);
  if (name == "two-modules") return two_modules(group);
  if (name == "wrapped-twice") return wrapped_twice(group);
  if (name == "tied") return tied(group);
  if (name == "unused") return unused(group);
  if (name == "sparse") return sparse(group, true);
  if (name == "sparse-by-call") return sparse(group, false);
  if (name == "frozen-late") return frozen_late(group);
  if (name == "thawed-late") return thawed_late(group);
  if (name == "swapped-late") return swapped_late(group);
  if (name == "frozen-for-a-while") return frozen_for_a_while(group);
  if (name == "replaced-late") return replaced_late(group);
  if (name == "frozen-by-rank") return frozen_by_rank(group);
  if (name == "added-late") return added_late(group);
  if (name == "unused-allowed") return unused_allowed(group);
  if (name == "different-modules") return different_modules(group);
  if (name == "collectives") return collectives(group);
  if (name == "death") return death(group);
  return lockstep::Error{ErrorKind::kUsage, "no such case: " + name};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, lockstep::catch_errors([&]() -> Status {
    LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(*context, {.output = argv[2]}));
    return run_case(argv[1], group);
  }));
}
