#include "checkpoint/pt/convert.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/pt/reader.h"
#include "checkpoint/pt/writer.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Value;

struct Net : torch::nn::Module {
  Net() {
    using namespace torch::nn;
    register_module("features",
                    Sequential(Conv2d(Conv2dOptions(1, 4, 5).bias(false)), BatchNorm2d(4)));
    register_module("head", Linear(16, 3));
  }
};
std::shared_ptr<Net> network() { return std::make_shared<Net>(); }

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.strides() != b.strides())
    return false;
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

std::vector<std::string> keys_of(const Value& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.dict_value()->pairs) keys.push_back(*key.str());
  return keys;
}

TEST(PtConvert, AModuleInPythonsOrderWithItsVersions) {
  Exporter exporter;
  const auto dict = exporter.state_dict(*network());
  ASSERT_TRUE(dict.ok()) << dict.error().message;
  EXPECT_EQ(keys_of(*dict), (std::vector<std::string>{
                                "features.0.weight", "features.1.weight", "features.1.bias",
                                "features.1.running_mean", "features.1.running_var",
                                "features.1.num_batches_tracked", "head.weight", "head.bias"}));
  const Value& metadata = *dict->dict_value()->attributes.find("_metadata");
  EXPECT_EQ(keys_of(metadata),
            (std::vector<std::string>{"", "features", "features.0", "features.1", "head"}));
  EXPECT_EQ(*metadata.find("features.1")->find("version")->integer(), 2);
  EXPECT_EQ(*metadata.find("head")->find("version")->integer(), 1);
}

TEST(PtConvert, ATensorWithoutDimensionsIsReadAsItsNumber) {
  const lockstep::test::TempFolder folder;
  ASSERT_TRUE(save_pt(folder / "s.pt", {{"accuracy", PtScalar{0.1}}}).ok());
  const auto tensor = read(posix_env(), folder / "s.pt");
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  const auto made = Importer().tensor(*tensor->find("accuracy"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->scalar_type(), at::kDouble);
  EXPECT_EQ(made->dim(), 0);

  Exporter exporter;
  Value fields = Value::dict();
  const std::vector<at::Tensor> tensors{at::scalar_tensor(0.25, at::kFloat),
                                        at::scalar_tensor(7, at::kLong),
                                        at::scalar_tensor(true, at::kBool), at::ones({2})};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    fields.set(std::to_string(i), *exporter.tensor(tensors[i]));
  ASSERT_TRUE(write(posix_env(), folder / "t.pt", fields).ok());
  const auto back = load_pt(folder / "t.pt");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(std::get<double>(back->at(0).second), 0.25);
  EXPECT_EQ(std::get<std::int64_t>(back->at(1).second), 7);
  EXPECT_EQ(std::get<bool>(back->at(2).second), true);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(back->at(3).second));
  EXPECT_EQ(std::get<double>(load_pt(folder / "s.pt")->at(0).second), 0.1);
}

TEST(PtConvert, AModuleComesBackFromAFile) {
  const lockstep::test::TempFolder folder;
  const auto from = network();
  auto to = network();
  Exporter exporter;
  const auto model = exporter.state_dict(*from);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(
      write(posix_env(), folder / "s.pt", Value::dict({{"MODEL_STATE", *model}, {"EPOCHS_RUN", 3}}))
          .ok());
  const auto snapshot = read(posix_env(), folder / "s.pt");
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
  EXPECT_EQ(*snapshot->find("EPOCHS_RUN")->integer(), 3);
  const Status loaded = load_state_dict(*to, *snapshot->find("MODEL_STATE"));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto expected = from->named_parameters();
  for (const auto& item : to->named_parameters()) {
    EXPECT_TRUE(same_bits(item.value(), expected[item.key()])) << item.key();
    EXPECT_TRUE(item.value().requires_grad());
  }
}

TEST(PtConvert, PrefixesAndOldFilesAreTaken) {
  const auto from = network();
  Exporter exporter;
  Value dict = Value::ordered_dict();
  const auto model = exporter.state_dict(*from);
  for (const auto& [key, value] : model->dict_value()->pairs)
    if (!key.str()->ends_with("num_batches_tracked")) dict.set("module." + *key.str(), value);
  auto to = network();
  const Status loaded = load_state_dict(*to, dict);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(
      same_bits(to->named_parameters()["head.weight"], from->named_parameters()["head.weight"]));
}

TEST(PtFiles, AreWhereTheyBelong) {
  const lockstep::test::TempFolder folder;
  const PtFields fields{{"epoch", std::int64_t{3}}};
  ASSERT_TRUE(save_pt(folder / "a/b/s.pt", fields).ok());
  EXPECT_FALSE((*load_pt_if_there(folder / "none.pt")).has_value());
  const auto there = load_pt_if_there(folder / "a/b/s.pt");
  ASSERT_TRUE(there.ok() && *there);
  EXPECT_EQ(*pt_field<std::int64_t>(**there, "epoch"), 3);
  EXPECT_EQ(pt_field<double>(**there, "epoch"), nullptr);
  EXPECT_EQ(pt_field<std::int64_t>(**there, "none"), nullptr);
  // A link stays one.
  std::filesystem::create_symlink("b/s.pt", folder / "a/link.pt");
  ASSERT_TRUE(save_pt(folder / "a/link.pt", PtFields{{"epoch", std::int64_t{4}}}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "a/link.pt"));
  EXPECT_EQ(*pt_field<std::int64_t>(*load_pt(folder / "a/b/s.pt"), "epoch"), 4);
}

TEST(PtFiles, NeitherPipesNorARunsOwnFilesAreReplaced) {
  const lockstep::test::TempFolder folder;
  const PtFields fields{{"epoch", std::int64_t{3}}};
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(save_pt(pipe, fields).error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  folder.write("run/manifest.json", "{}");
  for (const char* name : {"manifest.json", "metrics.jsonl", "checkpoints"})
    EXPECT_EQ(save_pt(folder / (std::string("run/") + name), fields).error().kind,
              ErrorKind::kUsage)
        << name;
  EXPECT_TRUE(save_pt(folder / "run/s.pt", fields).ok());
}

class BesideARun : public ::testing::Test {
 protected:
  void SetUp() override { folder_.write("run/manifest.json", "{}"); }
  void expect_refused(const std::string& path) const {
    for (const Status& saved :
         {save_pt(path, PtFields{{"epoch", std::int64_t{3}}}), save_safetensors(path, {})}) {
      ASSERT_FALSE(saved.ok()) << path;
      EXPECT_EQ(saved.error().kind, ErrorKind::kUsage);
      EXPECT_NE(saved.error().message.find("is the run's own"), std::string::npos)
          << saved.error().message;
    }
    EXPECT_EQ(folder_.read("run/manifest.json"), "{}");
  }
  const lockstep::test::TempFolder folder_;
};

TEST_F(BesideARun, BothFormatsMakeFoldersAndLeaveTheRunsFiles) {
  EXPECT_TRUE(save_safetensors(folder_ / "run/a/b/weights", {}).ok());
  expect_refused(folder_ / "run/manifest.json");
  expect_refused(folder_ / "run/checkpoints");
  EXPECT_TRUE(save_safetensors(folder_ / "checkpoints/step-00000003/weights", {}).ok());
}

TEST_F(BesideARun, NothingIsWrittenAmongItsCheckpoints) {
  const std::string step = folder_ / "run/checkpoints/step-00000003";
  std::filesystem::create_directories(step);
  std::filesystem::create_directory_symlink(step, folder_ / "step");
  expect_refused(step + "/model.safetensors");
  expect_refused(folder_ / "run/checkpoints/best");
  expect_refused(folder_ / "run/.tmp-lockstep-result.json");
  expect_refused(folder_ / "run/incidents/a/b.pt");
  expect_refused(folder_ / "step/optimizer.safetensors");
}

TEST_F(BesideARun, WhetherAFileCanBeWrittenIsKnownBefore) {
  const auto kind = [](const std::string& path) {
    const Status status = check_can_write(path);
    return status.ok() ? std::string("yes") : to_string(status.error().kind);
  };
  const std::string usage = to_string(ErrorKind::kUsage);
  EXPECT_EQ(kind(folder_ / "a/b/weights.pt"), "yes");
  EXPECT_EQ(kind(folder_ / std::string(255, 'n')), "yes");
  EXPECT_EQ(kind(folder_ / std::string(256, 'n')), usage);
  EXPECT_EQ(kind(folder_ / (std::string(256, 'n') + "/weights.pt")), usage);
  EXPECT_EQ(kind(folder_ / "run"), usage);
  EXPECT_EQ(kind(folder_ / "run/"), usage);
  EXPECT_EQ(kind(folder_ / "run/manifest.json"), usage);
  EXPECT_EQ(kind(folder_ / "run/manifest.json/weights.pt"), usage);
  ASSERT_TRUE(save_safetensors(folder_ / "there", {}).ok());
  const std::string before = folder_.read("there");
  EXPECT_EQ(kind(folder_ / "there"), "yes");
  EXPECT_EQ(folder_.read("there"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  std::size_t names = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    names += entry.exists() ? 1 : 0;
  EXPECT_EQ(names, 2U) << "only run and there";
}

TEST_F(BesideARun, AFolderThatIsNotToBeWrittenToIsToldBefore) {
  std::filesystem::create_directory(folder_ / "closed");
  std::filesystem::permissions(folder_ / "closed", std::filesystem::perms{0555});
  if (::geteuid() == 0) {  // root may write anywhere
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const Status status = check_can_write(folder_ / "closed/weights.pt");
  static_cast<void>(::seteuid(::getuid()));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage) << status.error().message;
}

TEST_F(BesideARun, TheLongestNameIsWritten) {
  const std::string longest = folder_ / (std::string(252, 'n') + ".pt");
  EXPECT_TRUE(save_pt(longest, PtFields{{"EPOCHS_RUN", std::int64_t{3}}}).ok());
  EXPECT_TRUE(load_pt(longest).ok());
  EXPECT_TRUE(save_safetensors(folder_ / std::string(255, 'm'), {}).ok());
}

TEST_F(BesideARun, ALinkToARunsFileIsThatFile) {
  std::filesystem::create_symlink("run/manifest.json", folder_ / "x.pt");
  std::filesystem::create_symlink("run/stop.json", folder_ / "not_there_yet.pt");
  std::filesystem::create_directory_symlink("run", folder_ / "latest");
  for (const char* name : {"x.pt", "not_there_yet.pt", "latest/metrics.jsonl"})
    expect_refused(folder_ / name);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "x.pt"));
}

TEST_F(BesideARun, TheWorkingDirectoryMayBeTheRuns) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "run");
  expect_refused("manifest.json");
  expect_refused("./result.json");
  EXPECT_TRUE(save_pt("own.pt", PtFields{{"epoch", std::int64_t{3}}}).ok());
  std::filesystem::current_path(before);
}

struct Wrapped : torch::nn::Module {
  Wrapped() { register_module("module", network()); }
};

TEST(PtConvert, PrefixesAreTheModulesOwn) {
  Exporter exporter;
  const auto bare = exporter.state_dict(*network());
  const auto wrapped = exporter.state_dict(Wrapped());
  ASSERT_TRUE(bare.ok() && wrapped.ok());
  for (const auto& dict : {*bare, *wrapped}) {
    Wrapped to;
    const Status loaded = load_state_dict(to, dict);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_TRUE(load_state_dict(*network(), dict).ok());
  }
}

TEST(PtConvert, WeightsComeFromASafetensorsFileACheckpointOrARunToo) {
  const lockstep::test::TempFolder folder;
  const auto saved = network();
  Exporter exporter;
  const auto dict = exporter.state_dict(*saved);
  ASSERT_TRUE(dict.ok());
  const auto tensors = Importer().state_dict(*dict);
  ASSERT_TRUE(tensors.ok() && save_safetensors(folder / "weights", *tensors).ok());
  const std::vector<CheckpointPart> parts{{"model", *tensors}, {"optimizer", {}}};
  ASSERT_TRUE(save_checkpoint(folder / "run", parts, {.txn = 7}, "{}").ok());
  for (const char* path :
       {"weights", "run", "run/checkpoints/last", "run/checkpoints/step-00000007"}) {
    const auto loaded = network();
    const Status status = lockstep::load_state_dict(*loaded, folder / path, "MODEL_STATE");
    ASSERT_TRUE(status.ok()) << path << ": " << status.error().message;
    EXPECT_TRUE(same_bits(loaded->named_parameters()["head.weight"],
                          saved->named_parameters()["head.weight"]))
        << path;
  }
  std::filesystem::create_directories(folder / "empty/checkpoints");
  const std::vector<CheckpointPart> others{{"optimizer", *tensors}};
  ASSERT_TRUE(save_checkpoint(folder / "other", others, {.txn = 7}, "{}").ok());
  ASSERT_TRUE(save_checkpoint(folder / "lost", others, {.txn = 7}, "{}").ok());
  std::filesystem::remove_all(folder / "lost/checkpoints/step-00000007");
  for (const auto& [path, says] :
       std::map<std::string, std::string>{{"nowhere", "nowhere"},
                                          {"empty", "no whole checkpoint"},
                                          {"run/checkpoints", "manifest"},
                                          {"other", "no part 'model'"},
                                          {"lost/checkpoints/last", "step-00000007"}}) {
    const Status status = lockstep::load_state_dict(*saved, folder / path);
    ASSERT_FALSE(status.ok()) << path;
    EXPECT_NE(status.error().message.find(says), std::string::npos) << status.error().message;
  }
  // A checkpoint is looked at before it is used.
  std::fstream damaged(folder / "run/checkpoints/step-00000007/model.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-1, std::ios::end).put('\x7f');
  damaged.close();
  EXPECT_FALSE(lockstep::load_state_dict(*saved, folder / "run/checkpoints/last").ok());
}

TEST(PtConvert, AnotherModelIsNamedAndNothingChanged) {
  using namespace torch::nn;
  auto small = Sequential(Linear(4, 3));
  const at::Tensor before = small->named_parameters()["0.weight"].clone();
  Exporter exporter;
  const Status wrong =
      load_state_dict(*small, *exporter.state_dict(*Sequential(Linear(4, 5), Linear(5, 1))));
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::kBadData);
  EXPECT_EQ(wrong.error().message,
            "the state_dict is not of this model: tensor '0.weight' is F32 [5, 4] in the "
            "checkpoint, F32 [3, 4] here; tensor "
            "'0.bias' is F32 [5] in the checkpoint, F32 [3] here; tensor '1.weight' of the "
            "checkpoint is not known here; and 1 more");
  EXPECT_TRUE(same_bits(small->named_parameters()["0.weight"], before));
  EXPECT_FALSE(load_state_dict(*small, Value::list()).ok());
  EXPECT_FALSE(load_state_dict(*small, Value::dict({{"0.weight", 1}})).ok());
}

TEST(PtConvert, ViewsDtypesAndStrides) {
  const at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
  NamedTensors tensors = {
      {"base", base},
      {"turned", base.t()},
      {"part", base.slice(0, 1, 3)},
      {"scalar", at::full({}, 42, at::kLong)},
      {"empty", at::zeros({0, 5})},
      {"last", at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)}};
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kFloat8_e5m2, at::kFloat8_e4m3fn,
                          at::kShort, at::kUInt16, at::kHalf, at::kBFloat16, at::kInt, at::kUInt32,
                          at::kFloat, at::kDouble, at::kLong, at::kUInt64})
    tensors.emplace_back(c10::toString(type), at::arange(1, 7, at::kInt).view({2, 3}).to(type));
  const lockstep::test::TempFolder folder;
  Exporter exporter;
  const auto dict = exporter.state_dict(tensors);
  ASSERT_TRUE(dict.ok()) << dict.error().message;
  ASSERT_TRUE(write(posix_env(), folder / "t.pt", *dict).ok());
  Importer importer;
  const auto back = importer.state_dict(*read(posix_env(), folder / "t.pt"));
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(same_bits((*back)[i].second, tensors[i].second)) << tensors[i].first;
  EXPECT_TRUE((*back)[0].second.is_alias_of((*back)[2].second));
  EXPECT_FALSE((*back)[0].second.is_alias_of((*back)[4].second));
}

TEST(PtConvert, BoolsAreZeroOrOne) {
  const auto flags = std::make_shared<TensorValue>();
  flags->dtype = DType::kBool;
  flags->shape = {3};
  flags->strides = {1};
  flags->storage = *allocate(3);
  auto* const bytes = static_cast<std::uint8_t*>(flags->storage->owner.get());
  bytes[0] = bytes[1] = 1;
  bytes[2] = 0;
  Importer importer;
  ASSERT_TRUE(importer.tensor(flags).ok());
  bytes[2] = 2;
  EXPECT_EQ(importer.tensor(flags).error().kind, ErrorKind::kBadData);
}

TEST(PtConvert, WhatCannotBeSavedIsNamed) {
  Exporter exporter;
  for (const at::Tensor& tensor :
       {at::Tensor(), at::zeros({2}, at::kComplexFloat), at::zeros({2}).to_sparse()}) {
    const auto refused = exporter.state_dict({{"odd", tensor}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_NE(refused.error().message.find("'odd'"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint::pt
