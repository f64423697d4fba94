#include "data/image/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "data/image/resize_kernels.h"
#include "data/image/resize_packed.h"
#include "unit/data/image/spec.h"

namespace lockstep::data::image {
namespace {

using ::testing::HasSubstr;

Image noise(int width, int height, std::uint32_t seed = 1) {
  std::mt19937 draw(seed);
  Image image(width, height);
  for (std::size_t i = 0; i < image.bytes(); ++i)
    image.data()[i] = static_cast<std::uint8_t>(draw());
  return image;
}

Transforms list_of(const std::string& spec) {
  Result<Transforms> made = Transforms::make(steps_of(spec));
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *std::move(made);
}

std::string refusal(const std::string& spec) {
  const Result<Transforms> made = Transforms::make(steps_of(spec));
  if (made.ok()) return "accepted";
  EXPECT_EQ(made.error().kind, ErrorKind::kUsage);
  return made.error().message;
}

std::size_t values(Size size) {
  return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width) * kChannels;
}

std::vector<float> applied(const Transforms& list, const PixelView& in, std::uint32_t key) {
  Workspace workspace;
  SampleRandom random(key);
  const Result<Size> size = list.output_size({in.height, in.width});
  EXPECT_TRUE(size.ok());
  std::vector<float> out(values(*size));
  const Status status = list.apply(in, random, workspace, out);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return out;
}

const char* const kCifar = "RandomCrop:32,32,4 Flip:0.5 ToTensor Normalize";

TEST(Transforms, PlanarPixelsGiveWhatInterleavedOnesDo) {
  const Image image = noise(32, 32);
  std::vector<std::uint8_t> planes(image.bytes());
  for (std::size_t i = 0; i < 32 * 32; ++i)
    for (std::size_t c = 0; c < kChannels; ++c)
      planes[c * 32 * 32 + i] = image.data()[i * kChannels + c];
  const PixelView planar = planar_view(planes.data(), 32, 32);
  for (const char* spec : {kCifar, "Resize:40,21 ToTensor", "AutoAugment:1 ToTensor Normalize",
                           "CenterCrop:9,40 Flip:1 ToTensor"})
    for (std::uint32_t key = 0; key < 50; ++key)
      ASSERT_EQ(applied(list_of(spec), image.view(), key), applied(list_of(spec), planar, key))
          << spec << " " << key;
}

TEST(Transforms, ABatchIsEqualToItsPictures) {
  const Transforms list = list_of(kCifar);
  std::vector<Image> images;
  std::vector<PixelView> views;
  std::vector<std::uint32_t> keys;
  for (std::uint32_t i = 0; i < 70; ++i) images.push_back(noise(32, 32, i));
  for (const Image& image : images) {
    views.push_back(image.view());
    keys.push_back(sample_key(1, 2, keys.size()));
  }
  const std::size_t each = values({32, 32});
  std::vector<float> batch(each * images.size());
  Workspace workspace;
  ASSERT_TRUE(list.apply_batch(views, keys, workspace, batch).ok());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::vector<float> one = applied(list, views[i], keys[i]);
    ASSERT_EQ(std::memcmp(one.data(), batch.data() + i * each, each * sizeof(float)), 0) << i;
  }
}

TEST(Transforms, AUsedWorkspaceChangesNothing) {
  Workspace used;
  for (const char* spec : {"AutoAugment:0 Resize:17,60 ToTensor", kCifar,
                           "RandomCrop:90,20,3,1,7,2 AutoAugment:2 Flip:0.5 ToTensor"})
    for (std::uint32_t key = 0; key < 40; ++key) {
      const Transforms list = list_of(spec);
      const Image image = noise(32 + static_cast<int>(key), 40, key);
      std::vector<float> out(values(*list.output_size({40, image.width()})));
      SampleRandom random(key);
      ASSERT_TRUE(list.apply(image.view(), random, used, out).ok());
      ASSERT_EQ(out, applied(list, image.view(), key)) << spec << " " << key;
    }
}

TEST(Transforms, ListsInTheWrongOrderAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("must end with ToTensor"));
  EXPECT_THAT(refusal("Flip:0.5"), HasSubstr("must end with ToTensor"));
  EXPECT_THAT(refusal("Normalize"), HasSubstr("must end with ToTensor"));
  EXPECT_THAT(refusal("ToTensor Flip:0.5 ToTensor"), HasSubstr("stand at the end, once each"));
  EXPECT_THAT(refusal("ToTensor Normalize Normalize"), HasSubstr("must end with ToTensor"));
}

TEST(Transforms, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(refusal("Resize:0 ToTensor"), HasSubstr("Resize to 0 x 0 pixels, each must be 1"));
  EXPECT_THAT(refusal("RandomResizedCrop:30000,30000 ToTensor"),
              HasSubstr("30000 x 30000, the limit is 178956970 pixels"));
  EXPECT_THAT(refusal("Resize:30,0,30 ToTensor"), HasSubstr("max_side is 30, must exceed"));
  EXPECT_THAT(refusal("Resize:30,40,50 ToTensor"), HasSubstr("not with two sizes"));
  EXPECT_THAT(refusal("CenterCrop:5,-1 ToTensor"), HasSubstr("CenterCrop to 5 x -1 pixels"));
  EXPECT_THAT(refusal("RandomCrop:5,5,-2 ToTensor"), HasSubstr("padding is -2"));
  EXPECT_THAT(refusal("Flip:1.5 ToTensor"), HasSubstr("p is 1.5"));
  EXPECT_THAT(refusal("RandomResizedCrop:8,8,0.5,1.5 ToTensor"), HasSubstr("scale is 0.5"));
  const auto made = Transforms::make({ToTensor{}, Normalize{{0, 0, 0}, {1, 0, 1}}});
  EXPECT_THAT(made.error().message, HasSubstr("std is 0.000000, must exceed 0"));
}

TEST(Transforms, ACropThatDoesNotFitIsAnErrorOfThePicture) {
  const Transforms list = list_of("RandomCrop:32,32,2 ToTensor");
  const Image image = noise(20, 40);
  Workspace workspace;
  SampleRandom random(1);
  std::vector<float> out(values({32, 32}));
  const Status status = list.apply(image.view(), random, workspace, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(status.error().message,
              HasSubstr("RandomCrop of 32 x 32 does not fit in a picture of 44 x 24"));
  EXPECT_FALSE(list.output_size({40, 20}).ok());
}

TEST(Transforms, APictureTooLongToBeResizedIsAnErrorOfThePicture) {
  const Transforms list = list_of("Resize:2000 CenterCrop:20,20 ToTensor");
  Workspace workspace;
  SampleRandom random(1);
  std::vector<float> out(values({20, 20}));
  const Status status = list.apply(noise(1, 60000).view(), random, workspace, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(status.error().message, HasSubstr("60000 x 1 would give one of 120000000 x 2000"));
}

TEST(Transforms, RoomThatDoesNotFitIsAnError) {
  const Transforms list = list_of("Resize:10 ToTensor");
  Workspace workspace;
  SampleRandom random(1);
  std::vector<float> out(values({10, 10}));
  const Status status = list.apply(noise(20, 40).view(), random, workspace, out);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("3 x 20 x 10, which is 600 values, and there is "
                                                "room for 300"));
  EXPECT_FALSE(list.apply_batch({}, {}, workspace, out).ok());
}

TEST(PixelValues, VectorsGiveTheBitsOfDivision) {
  const std::vector<std::array<float, 3>> means = {
      {0, 0, 0}, {0.485F, 0.456F, 0.406F}, {0.5F, 0.4914F, 0.4465F}};
  const std::vector<std::array<float, 3>> stds = {
      {1, 1, 1}, {0.229F, 0.224F, 0.225F}, {0.2023F, 1e-6F, 77.7F}};
  Image image(256, 1);
  std::vector<std::uint8_t> planes(3 * 256);
  for (int x = 0; x < 256; ++x) std::memset(image.row(0) + x * kChannels, x, kChannels);
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<std::uint8_t>(i);
  using Vectors = PixelValues::Vectors;
  const auto expect = [&](const auto& mean, const auto& std, const PixelView& view, int width,
                          bool flipped, Vectors widest) {
    std::vector<float> out(3 * 256);
    PixelValues(mean, std).write({view.pixels, width, 1, flipped, out.data(), 256, 256}, view,
                                 widest);
    const auto last = static_cast<std::size_t>(width) - 1;
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t v = 0; v <= last; ++v) {
        const float expected = (static_cast<float>(v) / 255.0F - mean[c]) / std[c];
        ASSERT_EQ(out[c * 256 + (flipped ? last - v : v)], expected) << c << " " << v;
      }
  };
  for (const auto& mean : means)
    for (const auto& std : stds)
      for (const PixelView& view : {image.view(), planar_view(planes.data(), 256, 1)})
        for (const int width : {256, 250})
          for (const bool flipped : {false, true})
            for (const Vectors widest : {Vectors::kNone, Vectors::kAvx2, Vectors::kAvx512})
              expect(mean, std, view, width, flipped, widest);
}

// Weights as a reduction of that many pixels could have them: not negative, 2^22 in all.
Taps random_taps(int in, int out, std::mt19937& draw) {
  const auto below = [&](int n) { return static_cast<int>(draw() % static_cast<unsigned>(n)); };
  Taps taps;
  const int most = taps.stride = 1 + below(in);
  for (int x = 0; x < out; ++x) {
    const int count = 1 + below(most);
    taps.spans.push_back({below(in - count + 1), count});
    int left = 1 << kWeightBits;
    for (int t = 0; t < taps.stride; ++t) {
      taps.weights.push_back(t + 1 == count ? left : t < count ? below(left + 1) : 0);
      left -= taps.weights.back();
    }
  }
  return taps;
}

// Behind a picture's last row there are only so many bytes.
TEST(ResizeKernels, PackedTapsReadNoFurtherThan16BytesBehindTheRow) {
  std::mt19937 draw(3);
  for (int i = 0; i < 400; ++i) {
    const int in = 1 + static_cast<int>(draw() % 200);
    Taps taps = random_taps(in, 1 + static_cast<int>(draw() % 90), draw);
    pack_taps(taps);
    for (const int offset : taps.offsets)
      ASSERT_LE(offset + taps.groups * kGroup * kChannels + 4, in * kChannels + 16) << in;
  }
}

TEST(ResizeKernels, AllInstructionSetsGiveTheSameBytes) {
  std::mt19937 draw(2);
  for (int i = 0; i < 400; ++i) {
    const int in = 1 + static_cast<int>(draw() % 200);
    const int out = 1 + static_cast<int>(draw() % 90);
    const Image image = noise(in, 9, static_cast<std::uint32_t>(draw()));
    Taps taps = random_taps(in, out, draw);
    const std::vector<std::int32_t> weights(9, (1 << kWeightBits) / 9);
    Image expected(out, 1);
    Image expected_row(in, 1);
    const auto row = static_cast<std::ptrdiff_t>(image.row_bytes());
    for (const ResizeKernels* kernels : supported_resize_kernels()) {
      const bool plain = kernels == &plain_resize_kernels();
      Image across(out, 1);
      Image down(in, 1);
      kernels->prepare(taps);
      kernels->across(image.data(), taps, across.data());
      kernels->down(image.data(), row, weights.data(), 9, down.data(), down.bytes());
      if (plain) expected = across;
      if (plain) expected_row = down;
      ASSERT_EQ(std::memcmp(expected.data(), across.data(), across.bytes()), 0) << in << " " << out;
      ASSERT_EQ(std::memcmp(expected_row.data(), down.data(), down.bytes()), 0) << in;
    }
  }
}

}  // namespace
}  // namespace lockstep::data::image
