#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::checkpoint {
namespace {

std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string text(kLengthBytes, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(text.data(), &length, kLengthBytes);
  return text + json + std::string(data_bytes, '\1');
}

Result<Header> parse(const std::string& file) {
  return parse_header(std::as_bytes(std::span(file)), file.size());
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"("a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}";
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  const auto header = parse(file_of(
      R"({"b":{"shape":[],"data_offsets":[8,16],"dtype":"I64"},)" + one("F32", "[1,2]", "[0,8]") +
          R"(,"e":{"dtype":"BOOL","shape":[3,0],"data_offsets":[16,16]},"__metadata__":{"k":"v"}}   )",
      16));
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->entries.size(), 3U);
  EXPECT_EQ(header->entries[0].info, (TensorInfo{"a", DType::kF32, {1, 2}}));
  EXPECT_EQ(header->entries[1].info, (TensorInfo{"b", DType::kI64, {}}));
  EXPECT_EQ(header->entries[2].info, (TensorInfo{"e", DType::kBool, {3, 0}}));
  EXPECT_EQ(header->metadata.at("k"), "v");
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
}

// As the reference reader does: a file is not refused for what one day may stand beside.
TEST(Safetensors, UnknownKeysOfATensorAndNoMetadataArePassedOver) {
  const auto header = parse(file_of(
      R"({"__metadata__":null,"a":{"x":{"dtype":["F64",{"y":[[-1,2.5,null,true]]}],"shape":{}},)"
      R"("dtype":"F32","q":"s","z":[],"shape":[2],"n":null,"data_offsets":[0,8],"e":{}},)"
      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9],"scale":-1.5}})",
      9));
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->entries.size(), 2U);
  EXPECT_EQ(header->entries[0].info, (TensorInfo{"a", DType::kF32, {2}}));
  EXPECT_EQ(header->entries[1].info, (TensorInfo{"b", DType::kU8, {1}}));
  EXPECT_TRUE(header->metadata.empty());
}

// What the format has and what it may have one day: listed, with sizes by bits where these are
// known.
TEST(Safetensors, ListsDtypesThatAreNotRead) {
  std::string json = "{";
  std::size_t at = 0;
  const auto add = [&](const std::string& dtype, std::size_t elements, std::size_t bytes) {
    const std::string offsets = "[" + std::to_string(at) + "," + std::to_string(at + bytes) + "]";
    json += at == 0 ? "" : ",";
    json += R"("t)" + std::to_string(at) + R"(":{"dtype":")" + dtype + R"(","shape":[)" +
            std::to_string(elements) + R"(],"data_offsets":)" + offsets + "}";
    at += bytes;
  };
  add("F4", 6, 3);
  add("F6_E2M3", 4, 3);
  add("F6_E3M2", 8, 6);
  add("F8_E8M0", 5, 5);
  add("F8_E4M3FNUZ", 5, 5);
  add("F8_E5M2FNUZ", 5, 5);
  add("C64", 2, 16);
  add("F2_E1M0", 3, 7);  // of the future
  add("a b", 1, 1);
  const auto header = parse(file_of(json + "}", at));
  ASSERT_TRUE(header.ok()) << header.error().message;
  std::string names;
  for (const Entry& entry : header->entries) {
    EXPECT_FALSE(entry.info.readable());
    EXPECT_FALSE(byte_size(entry.info).ok());
    names += describe(entry.info) + " ";
  }
  EXPECT_EQ(names,
            "F4 [6] F6_E2M3 [4] F6_E3M2 [8] F8_E8M0 [5] F8_E4M3FNUZ [5] F8_E5M2FNUZ [5] C64 [2] "
            "F2_E1M0 [3] 'a b' [1] ");
  EXPECT_EQ(unreadable(header->entries[6].info).message,
            "tensor 't27' is C64 [2], of a kind that is listed and not read");
  for (const char* const dtype : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                                  "BF16", "I32", "U32", "F32", "F64", "I64", "U64"})
    EXPECT_EQ(*bits_of(dtype), 8 * size_of(*dtype_of(dtype))) << dtype;
}

struct Bad {
  std::string json;
  std::size_t data;
  std::string says;
};

class Refused : public ::testing::TestWithParam<Bad> {};

TEST_P(Refused, WithAReason) {
  const auto header = parse(file_of(GetParam().json, GetParam().data));
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().kind, ErrorKind::kBadData);
  EXPECT_NE(header.error().message.find(GetParam().says), std::string::npos)
      << header.error().message;
}

const std::string kA = one("F32", "[2]", "[0,8]");

INSTANTIATE_TEST_SUITE_P(
    Safetensors, Refused,
    ::testing::Values(
        Bad{"", 0, "'{'"}, Bad{" {}", 0, "'{'"}, Bad{"[]", 0, "'{'"}, Bad{"{", 0, "not JSON"},
        Bad{"{} {}", 0, "not JSON"}, Bad{"{" + kA + "," + kA + "}", 8, "named twice"},
        Bad{R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "twice"},
        Bad{R"({"__metadata__":{"k":"1","k":"2"}})", 0, "twice"},
        Bad{R"({"__metadata__":{"k":1}})", 0, "number"},
        Bad{R"({"__metadata__":{"k":{}}})", 0, "object"},
        Bad{R"({"a":{"dtype":"F32","shape":[2]}})", 0, "missing"},
        Bad{R"({"a":{"dtype":"F32","shape":[2],"x":[{}],"shape":[2],"data_offsets":[0,8]}})", 8,
            "twice"},
        Bad{R"({"a":{"dtype":"F32","x":{"shape":[2]},"data_offsets":[0,8]}})", 8, "missing"},
        Bad{R"({"a":{"dtype":null,"shape":[2],"data_offsets":[0,8]}})", 8, "null"},
        Bad{R"({"a":[[[[[[]]]]]]})", 0, "array"}, Bad{R"({"a":null})", 0, "null"},
        Bad{"{" + one("F4", "[3]", "[0,1]") + "}", 1, "ends within a byte"},
        Bad{"{" + one("F4", "[4]", "[0,4]") + "}", 4, "needs 2 bytes"},
        Bad{"{" + one("F6_E2M3", "[6]", "[0,4]") + "}", 4, "ends within a byte"},
        Bad{"{" + one("C64", "[2]", "[0,8]") + "}", 8, "needs 16 bytes"},
        Bad{"{" + one("C64", "[2305843009213693952]", "[0,8]") + "}", 8, "64 bits"},
        Bad{"{" + one("X9", "[4294967296,4294967296]", "[0,8]") + "}", 8, "64 bits"},
        Bad{"{" + one("F32", "[-2]", "[0,8]") + "}", 8, "negative"},
        Bad{"{" + one("F32", "[2.0]", "[0,8]") + "}", 8, "whole"},
        Bad{"{" + one("F32", "[[2]]", "[0,8]") + "}", 8, "array"},
        Bad{"{" + one("F32", "[2]", "[0]") + "}", 8, "fewer"},
        Bad{"{" + one("F32", "[2]", "[0,8,8]") + "}", 8, "more than two"},
        Bad{"{" + one("F32", "[3]", "[0,8]") + "}", 8, "needs 12 bytes"},
        Bad{"{" + one("F32", "[2]", "[4,12]") + "}", 12, "hole"},
        Bad{"{" + one("F32", "[2]", "[8,0]") + "}", 8, "hole"},
        Bad{"{" + kA + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "overlap"},
        Bad{"{" + kA + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})", 20, "hole"},
        Bad{"{" + kA + "}", 9, "holds 9 bytes"}, Bad{"{" + kA + "}", 7, "cut short"},
        Bad{"{" + one("F64", "[4294967296,4294967296]", "[0,8]") + "}", 8, "64 bits"},
        Bad{"{" + one("U8", "[18446744073709551616]", "[0,8]") + "}", 8, "whole"},
        Bad{"{\"\xff\":1}", 0, "not JSON"}));

TEST(Safetensors, RefusesLengthsBeyondTheFileOrTheLimit) {
  EXPECT_FALSE(parse("1234567").ok());
  std::string file = file_of("{}", 0);
  file.pop_back();
  EXPECT_NE(parse(file).error().message.find("cut short"), std::string::npos);
  const std::uint64_t huge = kMaxHeaderBytes + 1;
  std::memcpy(file.data(), &huge, sizeof huge);
  EXPECT_NE(parse_header(std::as_bytes(std::span(file)), std::uint64_t{1} << 40)
                .error()
                .message.find("limit 100000000"),
            std::string::npos);
}

TEST(Safetensors, WritesDataAlignedAndSortedAndNamesItInTheOrderGiven) {
  const std::vector<TensorInfo> tensors = {{"z.half", DType::kBF16, {3}},
                                           {"b", DType::kF32, {2, 2}},
                                           {"a\"\n", DType::kF32, {1}},
                                           {"long", DType::kI64, {}},
                                           {"none", DType::kU8, {0}}};
  const auto layout = make_layout(tensors, {{"format", "pt"}});
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  EXPECT_EQ(layout->text.size() % 64, 0U);
  std::vector<std::string> order;
  for (std::size_t i = 0; i < layout->entries.size(); ++i) {
    const Entry& entry = layout->entries[i];
    order.push_back(entry.info.name);
    EXPECT_EQ(tensors[layout->source[i]], entry.info);
    EXPECT_EQ(entry.begin % size_of(entry.info.dtype), 0U);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"long", "a\"\n", "b", "z.half", "none"}));
  const std::string file =
      layout->text +
      std::string(static_cast<std::size_t>(layout->file_bytes) - layout->text.size(), '\0');
  const auto header = parse(file);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->data_start, layout->text.size());
  EXPECT_EQ(header->metadata.at("format"), "pt");
  ASSERT_EQ(header->entries.size(), tensors.size());
  for (const Entry& entry : header->entries) EXPECT_EQ(tensors[entry.place], entry.info);
}

TEST(Safetensors, RefusesToWriteWhatNobodyCouldRead) {
  const TensorInfo a{"a", DType::kF32, {1}};
  const auto refused = [](const std::vector<TensorInfo>& tensors) {
    return !make_layout(tensors).ok();
  };
  EXPECT_TRUE(refused({a, a}));
  EXPECT_TRUE(refused({{"", DType::kF32, {1}}}));
  EXPECT_TRUE(refused({{"__metadata__", DType::kF32, {1}}}));
  EXPECT_TRUE(refused({{"\xff", DType::kF32, {1}}}));
  EXPECT_TRUE(refused({{std::string(kMaxHeaderBytes, 'n'), DType::kF32, {1}}}));
  EXPECT_FALSE(refused({a}));
  EXPECT_FALSE(refused({}));
}

}  // namespace
}  // namespace lockstep::checkpoint
