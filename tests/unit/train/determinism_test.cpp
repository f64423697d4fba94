#include "train/determinism.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/guard.h"

namespace lockstep::training {
namespace {

// The process's setting is put back.
class Determinism : public testing::Test {
 protected:
  void TearDown() override {
    use_deterministic_algorithms(Deterministic::kOff);
    at::set_num_threads(1);
  }
};

Status unpool() {
  const at::Tensor x = at::ones({1, 1, 2, 2});
  return guarded("unpooling", ErrorKind::kInternal, [&]() -> Status {
    at::max_unpool2d(x, at::arange(4).view({1, 1, 2, 2}), {4, 4});
    return {};
  });
}

TEST_F(Determinism, AnOperationWithNoDeterministicFormIsAnErrorThatNamesTheOption) {
  use_deterministic_algorithms(Deterministic::kStrict);
  const Status refused = unpool();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(with_own_option(refused.error()).message.find("--deterministic warn"),
            std::string::npos);
  EXPECT_EQ(with_own_option({ErrorKind::kInternal, "no rain"}).message, "no rain");
  use_deterministic_algorithms(Deterministic::kOff);
  EXPECT_TRUE(unpool().ok());
}

TEST_F(Determinism, ItsWarningsAreSaidOnce) {
  use_deterministic_algorithms(Deterministic::kWarn);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(unpool().ok());
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string words = "does not have a deterministic implementation";
  const auto first = said.find(words);
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(words, first + 1), std::string::npos) << said;
}

// Two threads add to the same rows: where they do so at once, their order is another each time.
TEST_F(Determinism, ThreadsAddToOneRowInOneOrder) {
  use_deterministic_algorithms(Deterministic::kStrict);
  at::set_num_threads(2);
  const at::Tensor rows = at::randint(2, {100000}, at::kLong), values = at::randn({100000});
  const auto sum = [&] {
    return at::zeros({2}).index_put_({std::optional(rows)}, values, /*accumulate=*/true);
  };
  const at::Tensor first = sum();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(sum().equal(first)) << i;
}

}  // namespace
}  // namespace lockstep::training
