// DataParallel against the same done by hand: separate copies of the module, gradients added along
// the tree.
#include "lockstep/data_parallel.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <thread>

#include "ddp/gather.h"

namespace lockstep::test {
namespace {

namespace F = torch::nn::functional;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(double dropout = 0) : dropout_(dropout) {
    one = register_module("one", torch::nn::Linear(4, 6));
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    two = register_module("two", torch::nn::Linear(6, 3));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor hidden = norm(one(input)).relu();
    if (dropout_ > 0) hidden = at::dropout(hidden, dropout_, is_training());
    return two(hidden);
  }
  torch::nn::Linear one{nullptr}, two{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  double dropout_;
};
TORCH_MODULE(Net);

// What a replica leaves: its output, and its own gradients.
struct ByHand {
  std::vector<at::Tensor> gradients;  // summed
  at::Tensor output, buffers;         // of the module after the forward
};

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  parts.reserve(tensors.size());
  for (const at::Tensor& t : tensors) parts.push_back(t.detach().to(at::kDouble).flatten());
  return at::cat(parts);
}

Net copy_of(const Net& module, double dropout = 0) {
  Net copy(dropout);
  const at::NoGradGuard no_grad;
  const auto from = module->parameters(), to = copy->parameters();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  const auto old = module->buffers(), own = copy->buffers();
  for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(old[i]);
  copy->train(module->is_training());
  return copy;
}

at::Tensor by_hand_sum(const std::vector<at::Tensor>& g) {
  switch (g.size()) {
    case 2:
      return g[0].add(g[1]);
    case 3:
      return g[0].add(g[1]).add(g[2]);
    case 4:
      return g[0].add(g[1]).add(g[2].add(g[3]));
    default:
      return g[0].add(g[1]).add(g[2].add(g[3])).add(g[4]);
  }
}

ByHand by_hand(const Net& module, const at::Tensor& input, const at::Tensor& target, int replicas,
               double dropout = 0, std::uint64_t base = 0) {
  std::vector<Net> copies;
  std::vector<at::Tensor> outputs;
  const auto chunks = input.chunk(replicas, 0);
  for (std::size_t r = 0; r < chunks.size(); ++r) {
    copies.push_back(copy_of(module, dropout));
    if (dropout > 0) at::manual_seed(base + r);
    outputs.push_back(copies.back()->forward(chunks[r]));
  }
  ByHand result;
  result.output = at::cat(outputs);
  F::cross_entropy(result.output, target).backward();
  for (std::size_t p = 0; p < module->parameters().size(); ++p) {
    std::vector<at::Tensor> of_copies;
    of_copies.reserve(copies.size());
    for (const Net& copy : copies) of_copies.push_back(copy->parameters()[p].grad());
    result.gradients.push_back(by_hand_sum(of_copies));
  }
  result.buffers = flat(copies[0]->buffers());
  return result;
}

std::vector<at::Tensor> gradients_of(const Net& module) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : module->parameters()) gradients.push_back(p.grad());
  return gradients;
}

struct Data {
  explicit Data(std::int64_t rows) : input(at::randn({rows, 4})), target(at::randint(3, {rows})) {}
  at::Tensor input, target;
};

template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class DataParallelTest : public ::testing::Test {
 protected:
  DataParallelTest() {
    at::manual_seed(1);
    at::set_num_threads(1);  // of each replica
  }
};

TEST_F(DataParallelTest, HasTheBitsOfTheSameDoneByHand) {
  for (const int replicas : {2, 3, 4, 5})
    for (const std::int64_t rows : {20, 18}) {
      Net net;
      DataParallel model(
          net, [] { return Net(); }, replicas);
      for (int step = 0; step < 3; ++step) {
        const Data data(rows);
        const ByHand expected = by_hand(net, data.input, data.target, replicas);
        net->zero_grad();
        const at::Tensor output = model(data.input);
        EXPECT_TRUE(output.equal(expected.output)) << replicas << " replicas, " << rows << " rows";
        F::cross_entropy(output, data.target).backward();
        EXPECT_TRUE(flat(gradients_of(net)).equal(flat(expected.gradients)));
        EXPECT_TRUE(flat(net->buffers()).equal(expected.buffers));
        const at::NoGradGuard no_grad;
        for (const at::Tensor& p : net->parameters()) p.sub_(p.grad(), 0.1);
      }
    }
}

TEST_F(DataParallelTest, AShortBatchHasFewerChunks) {
  Net net;
  DataParallel model(
      net, [] { return Net(); }, 4);
  const Data data(5);  // 2 + 2 + 1; batch norm of one row is an error, so in evaluation mode
  net->eval();
  const ByHand expected = by_hand(net, data.input, data.target, 4);
  F::cross_entropy(model(data.input), data.target).backward();
  EXPECT_TRUE(flat(gradients_of(net)).equal(flat(expected.gradients)));
}

TEST_F(DataParallelTest, OneReplicaIsThePlainModule) {
  Net net;
  const Data data(8);
  Net plain = copy_of(net);
  DataParallel model(
      net, [] { return Net(); }, 1);
  F::cross_entropy(model(data.input), data.target).backward();
  F::cross_entropy(plain(data.input), data.target).backward();
  EXPECT_TRUE(flat(gradients_of(net)).equal(flat(gradients_of(plain))));
  EXPECT_TRUE(flat(net->buffers()).equal(flat(plain->buffers())));
}

TEST_F(DataParallelTest, ParametersAreInOnePlace) {
  Net net;
  std::vector<Net> made;
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  DataParallel<Net> model(
      net, [&] { return made.emplace_back(); }, 3);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
  for (const Net& replica : made)
    for (std::size_t i = 0; i < replica->parameters().size(); ++i)
      EXPECT_EQ(replica->parameters()[i].data_ptr(), net->parameters()[i].data_ptr());
  for (const Net& replica : made) EXPECT_FALSE(replica->parameters()[0].grad().defined());
}

TEST_F(DataParallelTest, DropoutRunsInOrderEachReplicaWithItsOwnStream) {
  Net net(0.5);
  const Data data(12);
  const std::uint64_t seed = 77;
  at::manual_seed(seed);
  const std::uint64_t base =
      at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator())->random64();
  const at::Tensor behind = at::detail::getDefaultCPUGenerator().get_state();
  const ByHand expected = by_hand(net, data.input, data.target, 3, 0.5, base);
  Net start = copy_of(net);
  for (int round = 0; round < 2; ++round) {  // of a fresh process, and of one that knows it
    DataParallel model(
        net, [] { return Net(0.5); }, 3);
    for (int again = 0; again <= round; ++again) {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < net->buffers().size(); ++i)
        net->buffers()[i].copy_(start->buffers()[i]);
      net->zero_grad();
      const at::AutoGradMode with_gradients(true);
      at::manual_seed(seed);
      const at::Tensor output = model(data.input);
      EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(behind));
      F::cross_entropy(output, data.target).backward();
      EXPECT_TRUE(flat(gradients_of(net)).equal(flat(expected.gradients)));
      EXPECT_TRUE(flat(net->buffers()).equal(expected.buffers));
    }
  }
}

TEST_F(DataParallelTest, ReplicasRunInThreadsOfTheirOwn) {
  struct WatchImpl : torch::nn::Module {
    explicit WatchImpl(std::vector<std::thread::id>* seen_in, std::vector<int>* kernel_threads)
        : seen(seen_in), kernels(kernel_threads) {
      w = register_parameter("w", at::ones({1}));
    }
    at::Tensor forward(const at::Tensor& input) {
      const auto number = static_cast<std::size_t>(input[0].item<double>());
      (*seen)[number] = std::this_thread::get_id();
      (*kernels)[number] = at::get_num_threads();
      return input * w;
    }
    std::vector<std::thread::id>* seen;
    std::vector<int>* kernels;
    at::Tensor w;
  };
  std::vector<std::thread::id> seen(3);
  std::vector<int> kernels(3);
  at::set_num_threads(3);
  const auto make = [&] { return std::make_shared<WatchImpl>(&seen, &kernels); };
  DataParallel<std::shared_ptr<WatchImpl>> model(make(), make, 3);
  model(at::arange(3, at::kFloat));
  at::set_num_threads(1);
  seen.push_back(std::this_thread::get_id());
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 4U);
  EXPECT_EQ(kernels, (std::vector<int>{3, 3, 3}));
}

TEST_F(DataParallelTest, ReplicasHaveTheCallersAutocast) {
  std::vector<at::ScalarType> seen(2);
  std::vector<int> caches(2, 1);
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_cache_enabled(false);
  ddp::in_threads(2, [&](std::size_t r) {
    seen[r] = at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
    caches[r] = at::autocast::is_autocast_cache_enabled();
  });
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(true);
  EXPECT_EQ(seen, (std::vector<at::ScalarType>{at::kHalf, at::kHalf}));
  EXPECT_EQ(caches, (std::vector<int>{0, 0}));
}

TEST_F(DataParallelTest, ReplicasTakeNoSignals) {
  std::vector<int> takes(2, 1);
  ddp::in_threads(2, [&](std::size_t r) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    takes[r] = sigismember(&blocked, SIGTERM) == 0;
  });
  EXPECT_EQ(takes, (std::vector<int>{0, 0}));
}

TEST_F(DataParallelTest, InputsHaveGradientsToo) {
  Net net;
  net->eval();  // batch norm of 2 of each 4 would differ from that of 8
  DataParallel model(
      net, [] { return Net(); }, 4);
  const Data data(8);
  const at::Tensor input = data.input.clone().set_requires_grad(true);
  const at::Tensor plain = data.input.clone().set_requires_grad(true);
  F::cross_entropy(model(input), data.target).backward();
  F::cross_entropy(net(plain), data.target).backward();
  EXPECT_TRUE(input.grad().allclose(plain.grad()));
}

TEST_F(DataParallelTest, FrozenAndModesFollowTheModule) {
  Net net;
  DataParallel model(
      net, [] { return Net(); }, 2);
  net->one->weight.set_requires_grad(false);
  net->norm->eval();
  const at::Tensor buffers = flat(net->buffers());
  const Data data(6);
  F::cross_entropy(model(data.input), data.target).backward();
  EXPECT_FALSE(net->one->weight.grad().defined());
  EXPECT_TRUE(net->two->weight.grad().defined());
  EXPECT_TRUE(flat(net->buffers()).equal(buffers));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(model(data.input).requires_grad());
}

TEST_F(DataParallelTest, TwoForwardsAddUpAndAGraphCanBeKept) {
  Net net;
  DataParallel model(
      net, [] { return Net(); }, 2);
  const Data data(6);
  const at::Tensor loss = F::cross_entropy(model(data.input), data.target);
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor once = flat(gradients_of(net));
  loss.backward();
  EXPECT_TRUE(flat(gradients_of(net)).equal(once * 2));
  EXPECT_NE(message_of([&] { loss.backward(); }).find("second"), std::string::npos);
}

TEST_F(DataParallelTest, TreeSumKeepsWhatIsNotThere) {
  const auto leaf = [](double value) { return at::full({1}, value, at::kFloat); };
  EXPECT_FALSE(ddp::tree_sum({at::Tensor(), at::Tensor()}).defined());
  EXPECT_EQ(ddp::tree_sum({at::Tensor(), leaf(2), leaf(3)}).item<double>(), 5);
  EXPECT_TRUE(std::signbit(ddp::tree_sum({at::Tensor(), leaf(-0.0)}).item<double>()));
  // (1e8 + -1e8) + (1 + 1): another order gives 1 or 0.
  EXPECT_EQ(ddp::tree_sum({leaf(1e8), leaf(-1e8), leaf(1), leaf(1)}).item<double>(), 2);
}

TEST_F(DataParallelTest, WrongUseIsTold) {
  Net net;
  const auto make = [] { return Net(); };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message_of([&] { DataParallel model(net, make, 0); }), "0 replicas; at least 1");
  has(message_of([&] {
        DataParallel<Net>(
            net, [&] { return net; }, 2);
      }),
      "the module's own");
  has(message_of([&] {
        DataParallel<Net>(
            net, [one = Net()] { return one; }, 2);
      }),
      "own");
  using Linear = torch::nn::Linear;
  has(message_of([&] {
        DataParallel<Linear>(
            Linear(2, 2), [] { return Linear(2, 3); }, 2);
      }),
      "parameter 0 is Float 2 2 in the module, Float 3 2 in the replica");
  DataParallel model(net, make, 2);
  has(message_of([&] { model(at::zeros({})); }), "cannot be cut");
  has(message_of([&] { model(at::zeros({4, 7})); }), "mat1 and mat2");
}

}  // namespace
}  // namespace lockstep::test
