// What Pillow 12.0.0 and torchvision 0.26.0 made of golden/'s pictures (make_golden.py), without
// Python.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/hash.h"
#include "unit/data/image/files.h"
#include "unit/data/image/spec.h"

namespace lockstep::data::image {
namespace {

struct Golden {
  std::string kind, spec, file, hash;
  std::uint32_t key = 0;
  Size size;
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  std::istringstream lines(text_of(golden_folder() + "/golden.tsv"));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
    all.push_back({fields.at(0),
                   fields.at(1),
                   fields.at(3),
                   fields.at(6),
                   static_cast<std::uint32_t>(std::stoul(fields.at(2))),
                   {std::stoi(fields.at(4)), std::stoi(fields.at(5))}});
  }
  return all;
}

std::string hash_of(const void* data, std::size_t bytes) {
  return sha256_hex({static_cast<const char*>(data), bytes});
}

void check_picture(const Golden& golden, const Transforms& list, Workspace& workspace) {
  Image in;
  Image out;
  SampleRandom random(golden.key);
  const auto file = bytes_of(golden_folder() + "/" + golden.file);
  ASSERT_TRUE(decode(file, golden.file, in).ok());
  ASSERT_TRUE(list.picture(in.view(), random, workspace, out).ok());
  EXPECT_EQ((Size{out.height(), out.width()}), golden.size);
  EXPECT_EQ(hash_of(out.data(), out.bytes()), golden.hash);
}

void check_values(const Golden& golden, const Transforms& list, Workspace& workspace) {
  std::vector<float> out(static_cast<std::size_t>(golden.size.height * golden.size.width) *
                         kChannels);
  SampleRandom random(golden.key);
  const auto file = bytes_of(golden_folder() + "/" + golden.file);
  const Status status = list.apply(file, golden.file, random, workspace, out);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(hash_of(out.data(), out.size() * sizeof(float)), golden.hash);
}

TEST(GoldenPictures, AreEqualToPillowsAndTorchvisions) {
  Workspace workspace;
  const std::vector<Golden> all = goldens();
  ASSERT_GT(all.size(), 300U);
  for (const Golden& golden : all) {
    SCOPED_TRACE(golden.spec + " " + std::to_string(golden.key) + " " + golden.file);
    const bool values = golden.kind == "values";
    const auto list = Transforms::make(steps_of(golden.spec + (values ? "" : " ToTensor")));
    ASSERT_TRUE(list.ok()) << list.error().message;
    values ? check_values(golden, *list, workspace) : check_picture(golden, *list, workspace);
  }
}

}  // namespace
}  // namespace lockstep::data::image
