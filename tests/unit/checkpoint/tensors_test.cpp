#include "checkpoint/tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/python.h"
#include "unit/checkpoint/samples.h"

namespace lockstep::checkpoint {
namespace {

const std::array kAllTypes = {at::kBool,          at::kByte,  at::kChar,   at::kFloat8_e5m2,
                              at::kFloat8_e4m3fn, at::kShort, at::kUInt16, at::kHalf,
                              at::kBFloat16,      at::kInt,   at::kUInt32, at::kFloat,
                              at::kDouble,        at::kLong,  at::kUInt64};

// One tensor of each dtype, and the shapes that formats get wrong.
NamedTensors sample_tensors() {
  NamedTensors tensors;
  for (const at::ScalarType type : kAllTypes)
    tensors.emplace_back(std::string("t.") + c10::toString(type),
                         at::arange(1, 7, at::kInt).view({2, 3}).to(type));
  tensors.emplace_back("scalar", at::full({}, 42, at::kLong));
  tensors.emplace_back("empty", at::zeros({0, 5}));
  tensors.emplace_back("conv", at::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
  tensors.emplace_back("turned", at::randn({3, 5}).t());
  tensors.emplace_back("a\u00e9\"b", at::randn({1}));
  return tensors;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

NamedTensors blank(const NamedTensors& like) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : like)
    tensors.emplace_back(name, at::zeros_like(tensor.view_as(tensor)));
  return tensors;
}

TEST(CheckpointTensors, EveryDtypeShapeAndStrideComesBack) {
  const test::TempFolder folder;
  const NamedTensors model = sample_tensors();
  const NamedTensors optimizer = {{"exp_avg", at::randn({7})}};
  const auto saved = save_checkpoint(folder.path(), {{"model", model}, {"optimizer", optimizer}},
                                     {10, 1, 2}, R"({"best":1})");
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->weights_sha256, *lockstep::weights_sha256(model));

  const NamedTensors loaded = blank(model);
  const NamedTensors moments = {{"exp_avg", at::zeros({7}).requires_grad_()}};
  EXPECT_FALSE(loaded[17].second.is_contiguous());
  const auto info = load_checkpoint(folder.path(), {{"model", loaded}, {"optimizer", moments}});
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_TRUE(info->has_value());
  EXPECT_EQ((*info)->cursor, (RunCursor{10, 1, 2}));
  EXPECT_EQ((*info)->state, R"({"best":1})");
  EXPECT_EQ((*info)->weights_sha256, saved->weights_sha256);
  for (std::size_t i = 0; i < model.size(); ++i)
    EXPECT_TRUE(same_bits(model[i].second, loaded[i].second)) << model[i].first;
  EXPECT_TRUE(same_bits(optimizer[0].second, moments[0].second));
}

TEST(CheckpointTensors, NothingSavedIsNotAnError) {
  const test::TempFolder folder;
  const auto info = load_checkpoint(folder.path(), {{"model", sample_tensors()}});
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->has_value());
}

TEST(CheckpointTensors, WhatCannotBeSavedIsNamed) {
  const test::TempFolder folder;
  const auto refused = [&](const at::Tensor& tensor) {
    const Status status = save_safetensors(folder.path() + "/x", {{"odd", tensor}});
    return !status.ok() && status.error().kind == ErrorKind::kUsage &&
           status.error().message.find("'odd'") != std::string::npos;
  };
  EXPECT_TRUE(refused(at::Tensor()));
  EXPECT_TRUE(refused(at::zeros({2}, at::kComplexFloat)));
  EXPECT_TRUE(refused(at::zeros({2}).to_sparse()));
}

TEST(CheckpointTensors, ALoneFileComesBackWithoutKnowingItsTensors) {
  const test::TempFolder folder;
  const NamedTensors tensors = sample_tensors();
  const std::string path = folder.path() + "/all.safetensors";
  ASSERT_TRUE(save_safetensors(path, tensors).ok());
  const auto loaded = load_safetensors(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_EQ(loaded->size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = (*loaded)[i];
    EXPECT_EQ(name, tensors[i].first);
    EXPECT_TRUE(same_bits(tensors[i].second, tensor)) << name;
  }
  EXPECT_EQ(load_safetensors(folder.path() + "/none").error().kind, ErrorKind::kBadData);
}

// Reads our file, hashes it as PyTorch users do, and writes one of its own.
constexpr const char* kScript = R"(
import hashlib, sys
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
h = hashlib.sha256()
for name, t in sorted(tensors.items()):
    h.update(name.encode())
    h.update(bytes(t.contiguous().untyped_storage()) if t.numel() else b'')
print(h.hexdigest())
save_file(tensors, sys.argv[2], metadata={'format': 'pt'})
)";

TEST(CheckpointTensors, PythonReadsOursAndWeReadPythons) {
  const std::string interpreter = test::python_with("torch, safetensors.torch");
  if (interpreter.empty())
    GTEST_SKIP() << "no Python with torch and safetensors; set LOCKSTEP_PYTHON";
  const test::TempFolder folder;
  const NamedTensors model = sample_tensors();
  const auto saved = save_checkpoint(folder.path(), {{"model", model}}, {1, 0, 1}, "{}");
  ASSERT_TRUE(saved.ok());
  const std::string script = folder.path() + "/read.py";
  std::ofstream(script) << kScript;
  const std::string theirs = folder.path() + "/theirs.safetensors";
  EXPECT_EQ(test::output_of(interpreter + " " + script + " " + saved->path + "/model.safetensors " +
                            theirs),
            saved->weights_sha256 + "\n");
  const auto back = load_safetensors(theirs);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*lockstep::weights_sha256(*back), saved->weights_sha256);
}

}  // namespace
}  // namespace lockstep::checkpoint
