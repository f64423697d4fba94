// load_state_dict(): names that only look different, tied weights, C++'s torch::save, and what is
// told when names need not match.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>

#include "checkpoint/module_state.h"
#include "checkpoint/pt/convert.h"
#include "checkpoint/pt/reader.h"
#include "checkpoint/pt/writer.h"
#include "checkpoint/shared_storage.h"
#include "lockstep/checkpoint.h"
#include "support/python.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint {
namespace {

using Names = std::vector<std::string>;

struct Decoder : torch::nn::Module {
  explicit Decoder(const at::Tensor& shared) {
    weight = register_parameter("weight", shared);
    bias = register_parameter("bias", at::randn({8}));
  }
  at::Tensor weight, bias;
};

// Its decoder is its embedding.
struct Tied : torch::nn::Module {
  torch::nn::Embedding embedding{8, 5};
  std::shared_ptr<Decoder> decoder;
  explicit Tied(bool tied = true) {
    register_module("embedding", embedding);
    decoder = std::make_shared<Decoder>(tied ? embedding->weight : at::randn({8, 5}));
    register_module("decoder", decoder);
    register_buffer("count", at::full({}, 3, at::kLong));
  }
};

bool equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto left = a.named_parameters(), right = b.named_parameters();
  for (const auto& item : left)
    if (!item.value().equal(right[item.key()])) return false;
  const auto more = a.named_buffers(), other = b.named_buffers();
  for (const auto& item : more)
    if (!item.value().equal(other[item.key()])) return false;
  return left.size() == right.size();
}

NamedTensors tensors_of(const torch::nn::Module& module) {
  pt::Exporter out;
  pt::Importer in;
  return *in.state_dict(*out.state_dict(module));
}

std::string said(const Status& status) { return status.ok() ? "" : status.error().message; }
template <class T>
std::string said(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class LoadStateDict : public ::testing::Test {
 protected:
  std::string saved(const NamedTensors& tensors) {
    const std::string path = folder_ / "given.safetensors";
    EXPECT_TRUE(save_safetensors(path, tensors).ok());
    return path;
  }
  std::string saved_pt(const pickle::Value& value) {
    EXPECT_TRUE(pt::write(posix_env(), folder_ / "given.pt", value).ok());
    return folder_ / "given.pt";
  }
  const lockstep::test::TempFolder folder_;
};

TEST_F(LoadStateDict, OneNameOfATiedWeightIsEnough) {
  Tied from;
  NamedTensors tensors = tensors_of(from);
  ASSERT_EQ(tensors.size(), 4U);  // both names are there
  for (const char* const left_out : {"decoder.weight", "embedding.weight"}) {
    NamedTensors fewer = tensors;
    std::erase_if(fewer, [&](const auto& item) { return item.first == left_out; });
    Tied to;
    EXPECT_EQ(said(load_state_dict(to, saved(fewer))), "") << left_out;
    EXPECT_TRUE(equal(from, to));
    EXPECT_TRUE(load_state_dict(to, saved(fewer), {.strict = false})->missing_keys.empty());
    Tied apart(false);
    EXPECT_TRUE(has(said(load_state_dict(apart, saved(fewer))),
                    "tensor '" + std::string(left_out) + "' is missing"));
  }
}

// Of one storage, but not all of it.
TEST_F(LoadStateDict, APartOfAWeightIsNotTheWeight) {
  const at::Tensor base = at::randn({4, 3});
  EXPECT_TRUE(covers(base, base.slice(0, 1, 3)));
  EXPECT_TRUE(covers(base, base.t()));
  EXPECT_TRUE(covers(base.t(), base));
  EXPECT_TRUE(covers(base.slice(0, 1, 3), base.slice(0, 2, 3)));
  EXPECT_FALSE(covers(base.slice(0, 1, 3), base));
  EXPECT_FALSE(covers(base.slice(0, 0, 2), base.slice(0, 2, 4)));
  EXPECT_FALSE(covers(base.slice(1, 0, 1), base.slice(0, 0, 1)));  // with holes
  EXPECT_FALSE(covers(base, base.clone()));
  EXPECT_FALSE(covers(base, at::zeros({0})));
}

TEST_F(LoadStateDict, WrappersAtAnyDepth) {
  Tied from;
  for (const char* const prefix : {"module.", "_orig_mod.", "module._orig_mod."}) {
    NamedTensors wrapped;
    for (const auto& [name, tensor] : tensors_of(from)) wrapped.emplace_back(prefix + name, tensor);
    Tied to;
    EXPECT_EQ(said(load_state_dict(to, saved(wrapped))), "") << prefix;
    EXPECT_TRUE(equal(from, to));
  }
  NamedTensors mixed = tensors_of(from);
  for (auto& [name, tensor] : mixed)
    if (name.starts_with("decoder")) name.insert(8, "_orig_mod.");
  Tied to;
  EXPECT_EQ(said(load_state_dict(to, saved(mixed))), "");
  EXPECT_TRUE(equal(from, to));
}

TEST_F(LoadStateDict, WhatDoesNotFitIsToldOrGivenBack) {
  Tied from, to;
  NamedTensors other = tensors_of(from);
  for (auto& [name, tensor] : other)
    if (name == "decoder.bias") name = "decoder.bais";
  other.emplace_back("extra", at::ones({2}));
  EXPECT_TRUE(
      has(said(load_state_dict(to, saved(other))),
          "tensor 'decoder.bias' is missing in the checkpoint; the nearest: 'decoder.bais'; "
          "tensor 'decoder.bais' of the checkpoint is not known here; the nearest: "
          "'decoder.bias'; tensor 'extra' of the checkpoint is not known here"));
  EXPECT_FALSE(equal(from, to));
  const auto keys = load_state_dict(to, saved(other), {.strict = false});
  ASSERT_TRUE(keys.ok()) << said(keys);
  EXPECT_EQ(keys->missing_keys, Names{"decoder.bias"});
  EXPECT_EQ(keys->unexpected_keys, (Names{"decoder.bais", "extra"}));
  EXPECT_TRUE(to.embedding->weight.equal(from.embedding->weight));
  const auto strict = load_state_dict(to, saved(tensors_of(from)), LoadStateDictOptions{});
  ASSERT_TRUE(strict.ok()) << said(strict);
  EXPECT_TRUE(strict->missing_keys.empty() && strict->unexpected_keys.empty());
  // Shapes must fit all the same, and nothing is changed.
  for (auto& [name, tensor] : other)
    if (name == "count") tensor = at::zeros({2}, at::kLong);
  EXPECT_TRUE(has(said(load_state_dict(to, saved(other), {.strict = false})),
                  "tensor 'count' is I64 [2] in the checkpoint, I64 [] here"));
}

// The same name in bytes and in str: what is left over is told.
TEST_F(LoadStateDict, ANameThatIsThereTwice) {
  using pickle::Value;
  const at::Tensor ones = at::ones({1, 2});
  pt::Exporter out;
  auto linear = torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false));
  const Value twice =
      Value::dict({{"weight", *out.tensor(ones)}, {Value::bytes("weight"), *out.tensor(ones)}});
  EXPECT_TRUE(has(said(pt::load_state_dict(*linear, twice)), "'weight'"));
}

// A leaf is an error for who asks for it, and for nobody else.
TEST_F(LoadStateDict, LeavesAreErrorsOnlyWhereTheyAreWanted) {
  using pickle::Value;
  pt::Exporter out;
  auto linear = torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false));
  const auto freqs = std::make_shared<pt::TensorLeaf>();
  freqs->dtype = "C64";
  freqs->shape = {1, 2};
  const Value weight = *out.tensor(at::ones({1, 2}));
  const Value beside = Value::dict(
      {{"weight", weight}, {"freqs", freqs}, {"_extra_state", Value::opaque("my.State")}});
  EXPECT_TRUE(
      has(said(pt::load_state_dict(*linear, beside)), "'freqs' of the checkpoint is not known"));
  pt::Importer in;
  const auto keys = load_module(*linear, *in.given(beside), false);
  ASSERT_TRUE(keys.ok()) << said(keys);
  EXPECT_EQ(keys->unexpected_keys, (Names{"freqs", "_extra_state"}));
  EXPECT_TRUE(linear->weight.equal(at::ones({1, 2})));
  EXPECT_TRUE(has(said(pt::load_state_dict(*linear, Value::dict({{"weight", freqs}}))),
                  "tensor 'weight' is C64 [1, 2] in the checkpoint, F32 [1, 2] here"));
  EXPECT_TRUE(has(said(pt::load_state_dict(
                      *linear, Value::dict({{"weight", Value::opaque("my.T")}, {"x", weight}}))),
                  "'weight': my.T stands where a tensor is due"));
  EXPECT_TRUE(has(said(in.tensor(freqs)), "is C64 [1, 2], of a kind that is listed and not read"));
  EXPECT_TRUE(has(said(in.state_dict(beside)), "tensor 'freqs' is C64"));
  EXPECT_TRUE(has(said(in.given(Value::dict({{"MODEL_STATE", beside}}))), "under a key"));
}

struct Nested : torch::nn::Module {
  torch::nn::Sequential body{torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4)};
  torch::nn::Linear head{4, 2};
  Nested() {
    register_module("body", body);
    register_module("head", head);
  }
};

TEST_F(LoadStateDict, FilesOfCppsTorchSave) {
  const std::string path = folder_ / "cpp.pt";
  auto linear = torch::nn::Linear(20, 1), again = torch::nn::Linear(20, 1);
  torch::save(linear, path);
  EXPECT_EQ(said(load_state_dict(*again, path)), "");
  EXPECT_TRUE(equal(*linear, *again));

  auto net = std::make_shared<Nested>();
  net->body->forward(at::randn({5, 3}));
  torch::save(net, path);
  Nested to;
  EXPECT_EQ(said(load_state_dict(to, path)), "");
  EXPECT_TRUE(equal(*net, to));
  EXPECT_TRUE(
      has(said(load_state_dict(*again, path)), "'body.0.weight' of the checkpoint is not known"));

  torch::save(at::ones({2}), path);
  const auto tensor = pt::read(posix_env(), path);
  ASSERT_TRUE(tensor.ok()) << said(tensor);
  EXPECT_NE(tensor->find("0")->as<pt::TensorValue>(), nullptr);
  torch::save(std::vector<at::Tensor>{at::ones({2}), at::zeros({3}, at::kHalf)}, path);
  ASSERT_TRUE(pt::read(posix_env(), path).ok());
  torch::optim::Adam adam(net->parameters());
  net->head->weight.sum().backward();
  adam.step();
  torch::save(adam, path);
  const auto state = pt::read(posix_env(), path);
  ASSERT_TRUE(state.ok()) << said(state);

  // A module under a name, as OutputArchive::write() has it.
  torch::serialize::OutputArchive archive, child;
  linear->save(child);
  archive.write("model", child);
  archive.write("epoch", c10::IValue(std::int64_t{3}));
  archive.save_to(path);
  EXPECT_EQ(said(load_state_dict(*again, path, "model")), "");
  EXPECT_TRUE(
      has(said(load_state_dict(*again, path, "modle")), "no 'modle'; the nearest: 'model'"));
  const auto fields = load_pt(path);
  ASSERT_TRUE(fields.ok()) << said(fields);
  EXPECT_EQ(*pt_field<std::int64_t>(*fields, "epoch"), 3);
  EXPECT_EQ(pt_field<NamedTensors>(*fields, "model")->size(), 2U);
}

constexpr const char* kSaveModel = R"(
import sys, torch
from safetensors.torch import load_model, save_model
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(8, 5)
        self.decoder = torch.nn.Linear(5, 8)
        self.decoder.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(0))
model = Tied()
print(*load_model(model, sys.argv[1]))
save_model(model, sys.argv[2])
save_model(model.half(), sys.argv[3], metadata={})
)";

TEST_F(LoadStateDict, ASavedModuleIsPythonsSaveModelByteForByte) {
  const std::string interpreter = lockstep::test::python_with("torch, safetensors.torch");
  if (interpreter.empty())
    GTEST_SKIP() << "no Python with torch and safetensors; set LOCKSTEP_PYTHON";
  folder_.write("save.py", kSaveModel);
  const std::string ours = folder_ / "ours", theirs = folder_ / "theirs", half = folder_ / "half";
  const Tied from;
  ASSERT_EQ(said(save_safetensors(ours, from)), "");
  EXPECT_EQ(lockstep::test::output_of(interpreter + " " + (folder_ / "save.py") + " " + ours + " " +
                                      theirs + " " + half + " 2>&1"),
            "set() []\n");
  EXPECT_TRUE(lockstep::test::read_text(ours) == lockstep::test::read_text(theirs));
  Tied to;
  EXPECT_EQ(said(load_state_dict(to, theirs)), "");
  EXPECT_TRUE(equal(from, to));
  Tied halved;
  for (at::Tensor& parameter : halved.parameters()) parameter.set_data(parameter.to(at::kHalf));
  EXPECT_EQ(said(load_state_dict(halved, half)), "");
  ASSERT_EQ(said(save_safetensors(ours, halved)), "");
  EXPECT_TRUE(lockstep::test::read_text(ours) == lockstep::test::read_text(half));
}

TEST_F(LoadStateDict, TiedNamesGoIntoTheMetadata) {
  const std::string path = folder_ / "tied";
  const Tied from;
  ASSERT_EQ(said(save_safetensors(path, from, {{"format", "pt"}})), "");
  const std::string text = lockstep::test::read_text(path);
  EXPECT_TRUE(has(text, R"({"__metadata__":{"embedding.weight":"decoder.weight","format":"pt"},)"))
      << text.substr(0, 300);
  EXPECT_FALSE(has(text, R"("embedding.weight":{)"));
  // The first name that has the whole storage; parts of none stay.
  const at::Tensor base = at::randn({4, 3});
  const auto kept = one_name_per_storage({{"c", base},
                                          {"b", base.t()},
                                          {"a", base.slice(0, 1, 2)},
                                          {"x", at::ones({2})},
                                          {"y", at::zeros({0})},
                                          {"z", at::zeros({0})}});
  EXPECT_EQ(kept.aliases, (Metadata{{"a", "b"}, {"c", "b"}}));
  EXPECT_EQ(kept.tensors.size(), 4U);
  const auto parts = one_name_per_storage({{"a", base.slice(0, 0, 3)}, {"b", base.slice(0, 2, 4)}});
  EXPECT_TRUE(parts.aliases.empty());
  EXPECT_EQ(parts.tensors.size(), 2U);
}

}  // namespace
}  // namespace lockstep::checkpoint
