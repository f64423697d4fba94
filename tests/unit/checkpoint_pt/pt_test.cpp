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

TEST(Pt, TheStreamBeforeZip) {
  for (const OldFile& file : {old_stream(), gpu_stream()}) {
    EXPECT_EQ(shown(file.content), file.shown);
    for (std::size_t cut = 0; cut < file.content.size(); ++cut)
      EXPECT_TRUE(has(shown(file.content.substr(0, cut)), "error: ")) << cut;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint::pt::test
