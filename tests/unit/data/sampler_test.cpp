// Against PyTorch itself: sampler_golden.py writes what Python's samplers give, index for index.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>

#include <fstream>
#include <sstream>

#include "lockstep/data.h"
#include "support/python.h"
#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

Ids read_ids(std::istream& in) {
  std::string colon;
  in >> colon;
  Ids ids;
  for (std::int64_t id = 0; in >> id;) ids.push_back(id);
  return ids;
}

std::string from_hex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

void compare_distributed(std::istream& in, const std::string& line) {
  DistributedSampler sampler;
  std::uint64_t epoch = 0;
  in >> sampler.dataset_size >> sampler.num_replicas >> sampler.rank >> sampler.shuffle >>
      sampler.seed >> epoch >> sampler.drop_last;
  const Ids expected = read_ids(in);
  const auto order = sampler.order(epoch);
  ASSERT_TRUE(order.ok()) << order.error().message;
  EXPECT_EQ(*order, expected) << line.substr(0, 80);
  EXPECT_EQ(sampler.num_samples(), static_cast<std::int64_t>(expected.size()))
      << line.substr(0, 80);
}

// The functions in a row, and the plan's epochs asked for backwards.
void compare_one_process(std::istream& in, Shuffle shuffle) {
  std::int64_t n = 0;
  std::uint64_t epochs = 0;
  std::string state;
  in >> n >> epochs >> state;
  const Ids expected = read_ids(in);
  const DataPlan plan{
      .dataset_size = n, .batch_size = n, .shuffle = shuffle, .generator_state = from_hex(state)};
  auto order = DataOrder::make(plan);
  ASSERT_TRUE(order.ok()) << order.error().message;
  at::Generator generator = at::detail::createCPUGenerator();
  ASSERT_TRUE(set_generator_state(generator, plan.generator_state).ok());
  Ids drawn, backwards;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Ids ids =
        shuffle == Shuffle::kLegacy ? legacy_order(generator, n) : dataloader_order(generator, n);
    drawn.insert(drawn.end(), ids.begin(), ids.end());
    const Ids back = *(*order)->ids({.epoch = epochs - 1 - epoch}, 0);
    backwards.insert(backwards.begin(), back.begin(), back.end());
  }
  EXPECT_EQ(drawn, expected) << to_string(shuffle) << " " << n;
  EXPECT_EQ(backwards, expected) << to_string(shuffle) << " " << n;
}

TEST(Sampler, EqualsPyTorchIndexForIndex) {
  const std::string python =
      test::python_with("torch; assert torch.__version__.split(\"+\")[0] == \"" TORCH_VERSION "\"");
  if (python.empty()) GTEST_SKIP() << "no Python with torch " TORCH_VERSION "; set LOCKSTEP_PYTHON";
  const test::TempFolder folder;
  const std::string orders = folder / "orders";
  ASSERT_EQ(test::output_of(python + " " LOCKSTEP_SAMPLER_GOLDEN " " + orders), "");
  std::ifstream file(orders);
  int distributed = 0, one_process = 0;
  for (std::string line, kind; std::getline(file, line);) {
    std::istringstream in(line);
    in >> kind;
    if (kind == "distributed") {
      compare_distributed(in, line);
      ++distributed;
    } else {
      compare_one_process(in, kind == "legacy" ? Shuffle::kLegacy : Shuffle::kDataLoader);
      ++one_process;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(distributed, 9000);
  EXPECT_EQ(one_process, 16);
}

TEST(Sampler, PadsByRepeatingTheHeadAgainAndAgain) {
  const DistributedSampler sampler{.dataset_size = 2, .num_replicas = 7, .shuffle = false};
  EXPECT_EQ(*sampler.whole_order(0), (Ids{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Sampler, BadArgumentsAreUsageErrors) {
  EXPECT_EQ(DistributedSampler{}.order(0).error().kind, ErrorKind::kUsage);
  const DistributedSampler rank{.dataset_size = 5, .num_replicas = 2, .rank = 2};
  EXPECT_NE(rank.order(0).error().message.find("rank is 2, must be 0 to 1"), std::string::npos);
  const DistributedSampler none{.dataset_size = 5, .num_replicas = 0};
  EXPECT_FALSE(none.order(0).ok());
}

TEST(Generator, StateGoesOutAndIn) {
  at::Generator first = at::detail::createCPUGenerator(5);
  const Ids before = legacy_order(first, 100);
  const std::string state = generator_state(first);
  const Ids expected = legacy_order(first, 100);
  at::Generator second = at::detail::createCPUGenerator(6);
  ASSERT_TRUE(set_generator_state(second, state).ok());
  EXPECT_EQ(legacy_order(second, 100), expected);
  EXPECT_NE(before, expected);
  for (const std::string& bad : {std::string(), state.substr(1), state + "x"}) {
    const Status status = set_generator_state(second, bad);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kBadData);
  }
}

}  // namespace
}  // namespace lockstep::data
