#include <gtest/gtest.h>

#include "unit/checkpoint_pt/old_files.h"

namespace lockstep::checkpoint::pt::test {
namespace {

Value model() {
  Value all =
      Value::ordered_dict({{"w", tensor_of(DType::kF32, {2, 3}, floats({1, 2, 3, 4, 5, 6}))},
                           {"n", tensor_of(DType::kI64, {}, little(7, 8))},
                           {"empty", tensor_of(DType::kF32, {0, 4}, "")},
                           {"u", tensor_of(DType::kU16, {2}, "abcd")}});
  all.dict_value()->attributes =
      Value::dict({{"_metadata", Value::ordered_dict({{"", Value::dict({{"version", 1}})}})}});
  return all;
}

TEST(Pt, ComesBackEqual) {
  const Value value = Value::dict({{"MODEL_STATE", model()},
                                   {"EPOCHS_RUN", 3},
                                   {"LOSS", 0.25},
                                   {"HISTORY", Value::list({1.0, 0.5})}});
  EXPECT_EQ(shown(file_of(value)), show(value));
  EXPECT_EQ(shown(file_of(value, 1)), show(value));  // all sizes and places in zip64 fields
  EXPECT_EQ(shown(file_of(value, 200)), show(value));
}

TEST(Pt, SharedStoragesStayShared) {
  const Value whole = tensor_of(DType::kF32, {6}, floats({1, 2, 3, 4, 5, 6}));
  auto part = std::make_shared<TensorValue>();
  part->storage = whole.as<TensorValue>()->storage;
  part->offset = 8;
  part->shape = {2, 2};
  part->strides = {1, 2};
  const std::string content = file_of(Value::tuple({whole, part}));
  EXPECT_FALSE(has(content, "archive/data/1"));
  MemoryFile file(content);
  const auto back = parse(file);
  ASSERT_TRUE(back.ok()) << back.error().message;
  const auto& items = *back->tuple_items();
  EXPECT_EQ(items[0].as<TensorValue>()->storage, items[1].as<TensorValue>()->storage);
  EXPECT_EQ(show(items[1]), show(Value(part)));
  EXPECT_EQ(show(items[1]), "tensor(F32 2 2 | 0 0 40 40 0 0 a0 40 0 0 80 40 0 0 c0 40)");
}

TEST(Pt, DataAreAlignedAndEqualValuesGiveEqualBytes) {
  const std::string content = file_of(model());
  EXPECT_EQ(content, file_of(model()));
  const std::string data = floats({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(content.find(data) % 64, 0U);
}

TEST(Pt, WrittenBesideAndRenamed) {
  const lockstep::test::TempFolder folder;
  ASSERT_TRUE(write(posix_env(), folder / "snapshot.pt", model()).ok());
  EXPECT_TRUE(has(folder.read("snapshot.pt"), "snapshot/data.pkl"));
  ASSERT_TRUE(write(posix_env(), folder / "odd name.pt", model()).ok());
  EXPECT_TRUE(has(folder.read("odd name.pt"), "archive/data.pkl"));
  const auto back = read(posix_env(), folder / "snapshot.pt");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(show(*back), show(model()));
  const std::string before = folder.read("snapshot.pt");
  const Status refused = write(posix_env(), folder / "snapshot.pt", Value::list({model(), "\xff"}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(folder.read("snapshot.pt"), before);
  EXPECT_EQ(posix_env().list(folder.path())->size(), 2U);  // no temporary file
}

TEST(Pt, WhatCannotBeWrittenIsSaid) {
  MemoryOut out;
  const Value tensor = tensor_of(DType::kF32, {2}, floats({1, 2}));
  auto other = std::make_shared<TensorValue>();
  other->storage = tensor.as<TensorValue>()->storage;
  other->dtype = DType::kI32;
  EXPECT_TRUE(
      has(write_to(out, "a", Value::list({tensor, other})).error().message, "as F32 and I32"));
  other->dtype = DType::kF32;
  other->offset = 8;
  EXPECT_TRUE(has(write_to(out, "a", other).error().message, "goes beyond its storage of 8 bytes"));
  other->offset = 2;
  EXPECT_TRUE(has(write_to(out, "a", other).error().message, "no multiple"));
}

TEST(Pt, ZipsOfOtherToolsAreRead) {
  const std::string body = rebuild_v2(storage("0", 6), 0, int1(6), int1(1));
  const std::string expected = show(tensor_of(DType::kF32, {6}, floats({1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(shown(around(body)), expected);
  for (const bool deflate : {false, true})
    for (const bool descriptor : {false, true})
      EXPECT_EQ(shown(zip_of({{"m/data.pkl", pickled(body), deflate, descriptor},
                              {"m/data/0", floats({1, 2, 3, 4, 5, 6}), deflate, descriptor},
                              {"m/version", "3\n", deflate, descriptor}})),
                expected);
}

TEST(Pt, TensorsOfEveryAge) {
  for (const OldFile& file : old_tensors()) EXPECT_EQ(shown(file.content), file.shown) << file.name;
  EXPECT_EQ(shown(around(global("torch", "Size") + int1(2) + "\x85\x85R")), "(2)");
  EXPECT_EQ(shown(around(global("torch", "device") + unicode("cuda") + int1(1) + "\x86R")),
            "'cuda:1'");
  EXPECT_EQ(shown(around(global("torch", "float32"))), "the global 'torch.float32'");
}

std::string leaf_of(const std::string& storage) {
  return shown(around(rebuild_v2(storage, 0, int1(2) + int1(3), int1(3) + int1(1))));
}

TEST(Pt, TensorsOfOtherKindsAreLeaves) {
  EXPECT_EQ(leaf_of(storage("0", 6, "cpu", "ComplexFloatStorage")), "<C64 [2, 3]>");
  EXPECT_EQ(leaf_of(storage("0", 6, "cpu", "ComplexDoubleStorage")), "<C128 [2, 3]>");
  EXPECT_EQ(leaf_of(storage("0", 6, "cpu", "NewStorage")), "<NewStorage [2, 3]>");
  EXPECT_EQ(leaf_of(storage("0", 6, "meta")), "<F32 (meta) [2, 3]>");
  EXPECT_EQ(leaf_of(storage("0", 6, "cuda:x")), "<F32 (cuda:x) [2, 3]>");
  // Of a device that we do not know: the bytes are there.
  EXPECT_EQ(leaf_of(storage("0", 6, "hpu:0")), leaf_of(storage("0", 6)));
  EXPECT_EQ(leaf_of(storage("0", 6, "privateuseone:1")), leaf_of(storage("0", 6)));
  EXPECT_EQ(shown(around(storage("0", 6))), "<a storage without a tensor>");
  // A leaf's storage is neither looked for nor read, nor is one that was dropped.
  EXPECT_EQ(leaf_of(storage("9", 6, "cpu", "ComplexFloatStorage")), "<C64 [2, 3]>");
  const std::string model = global("my", "Net") + ")\x81}(" + unicode("w") +
                            rebuild_v2(storage("9", 6), 0, int1(6), int1(1)) + "ub";
  EXPECT_EQ(shown(around(model)), "<my.Net>");
  EXPECT_EQ(shown(around("(" + unicode("module") + global("my", "Net") + "NNtQ)\x81")), "<my.Net>");
  // Beside a tensor that is read.
  const std::string tensor = rebuild_v2(storage("0", 6), 0, int1(6), int1(1));
  EXPECT_EQ(shown(around("}(" + unicode("args") + model + unicode("w") + tensor + "u")),
            "{'args': <my.Net>, 'w': " + shown(around(tensor)) + "}");
}

TEST(Pt, AttributesAndHooksOfTensorsAreDropped) {
  const std::string tensor = rebuild_v2(storage("0", 6), 0, int1(6), int1(1));
  const std::string state = "}(" + unicode("is_head") + "\x88u";
  EXPECT_EQ(shown(around(global("torch._utils", "_rebuild_parameter_with_state") + "(" + tensor +
                         "\x88" + global("my", "hook") + state + "tR")),
            float_parameter({1, 2, 3, 4, 5, 6}) + " grad)");
  const std::string arguments =
      tensor.substr(tensor.find('('), tensor.size() - 1 - tensor.find('('));
  const auto typed = [&](const std::string& function, const std::string& type) {
    return shown(around(global("torch._tensor", "_rebuild_from_type_v2") + "(" + function + type +
                        arguments + state + "tR"));
  };
  const std::string v2 = global("torch._utils", "_rebuild_tensor_v2");
  EXPECT_EQ(typed(v2, global("torch", "Tensor")), shown(around(tensor)));
  EXPECT_EQ(typed(v2, global("my", "Tensor")), shown(around(tensor)));
  EXPECT_EQ(typed(global("my", "rebuild"), global("my", "Tensor")), "<my.Tensor>");
  EXPECT_TRUE(has(typed(global("torch._tensor", "_rebuild_from_type_v2"), "N"), "makes no tensor"));
}

// torch.jit.save and C++'s torch::save: objects with attributes; code/ may hold anything.
TEST(Pt, ArchivesOfTorchScriptAreRead) {
  const std::string tensor = rebuild_v2(storage("0", 6), 0, int1(6), int1(1));
  const auto module = [](const std::string& attributes) {
    return global("__torch__.nn", "Module") + ")\x81}(" + attributes + "ub";
  };
  const std::string types =
      global("torch.jit._pickle", "build_intlist") + "](K\x01K\x02" + "e\x85R";
  const std::string body = module(unicode("training") + "\x88" + unicode("0") +
                                  module(unicode("weight") + tensor) + unicode("sizes") + types);
  const std::string file = zip_of({{"m/data.pkl", pickled(body)},
                                   {"m/code/__torch__/nn.py", "import os; os.system('false')"},
                                   {"m/code/data.pkl", "not a pickle"},
                                   {"m/data/0", floats({1, 2, 3, 4, 5, 6})},
                                   {"m/constants.pkl", "not one either"},
                                   {"m/version", "10\n"}});
  EXPECT_EQ(shown(file), "object{'training': True, '0': object{'weight': " + shown(around(tensor)) +
                             "}, 'sizes': [1, 2]}");
}

TEST(Pt, TheStreamBeforeZip) {
  for (const OldFile& file : {old_stream(), gpu_stream()}) {
    EXPECT_EQ(shown(file.content), file.shown);
    for (std::size_t cut = 0; cut < file.content.size(); ++cut)
      EXPECT_TRUE(has(shown(file.content.substr(0, cut)), "error: ")) << cut;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint::pt::test
