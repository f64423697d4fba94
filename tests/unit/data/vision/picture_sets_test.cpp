#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <thread>

#include "lockstep/vision.h"
#include "support/temp_folder.h"
#include "unit/data/image/files.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using transforms::RandomCrop;
using transforms::Resize;
using transforms::ToTensor;

std::string picture(const char* name) {
  return image::text_of(image::golden_folder() + "/" + name);
}

// Two classes; the second of the four pictures is cut off.
class PictureSets : public testing::Test {
 protected:
  void SetUp() override {
    const std::string jpeg = picture("jpeg-420-q75-p0-61x47.jpg");
    root_.write("a/1.jpg", jpeg);
    root_.write("a/2.jpg", jpeg.substr(0, jpeg.size() / 2));
    root_.write("b/3.png", picture("png-2-8-0-33x18.png"));
    root_.write("b/4.jpg", jpeg);
  }
  std::shared_ptr<const PictureSet> open(transforms::Compose list) const {
    auto set = open_image_folder(root_.path(), std::move(list));
    EXPECT_TRUE(set.ok()) << set.error().message;
    return *set;
  }
  static constexpr Resize kSmall{8, 12};
  const test::TempFolder root_;
};

TEST_F(PictureSets, DamagedOnesAreLeftOutNamedAndCounted) {
  const auto set = open({kSmall, ToTensor{}});
  EXPECT_EQ(set->size(), 4);
  EXPECT_THAT(set->classes(), ElementsAre("a", "b"));
  const std::vector<std::int64_t> ids{3, 1, 2};
  const auto batch = set->get(ids, {});
  const auto again = set->get(ids, {});
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_THAT(batch->ids, ElementsAre(3, 2));
  EXPECT_EQ(batch->inputs.sizes(), (at::IntArrayRef{2, 3, 8, 12}));
  EXPECT_EQ(batch->targets.sizes(), (at::IntArrayRef{2}));
  EXPECT_EQ(batch->targets[0].item<std::int64_t>(), 1);
  EXPECT_TRUE(at::equal(batch->inputs, again->inputs));
  EXPECT_EQ(set->left_out(), 1);
  EXPECT_THAT(set->why_left_out(1), HasSubstr(set->name(1) + ": not a usable JPEG"));
  EXPECT_EQ(set->why_left_out(0), "");
  testing::internal::CaptureStderr();
  ASSERT_TRUE(evaluation_batch(*set, 4, 0).ok());
  ASSERT_TRUE(evaluation_batch(*set, 4, 0).ok());
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("left out: " + set->name(1)));
  EXPECT_EQ(told.find("left out"), told.rfind("left out")) << "once";
}

// Its pixels, label, id and random stream: also in a part of the set, in the part's order.
TEST_F(PictureSets, InTrainingADamagedOneIsTheNext) {
  const std::shared_ptr<const Dataset> whole = open({RandomCrop{16, 16, 4}, ToTensor{}});
  const auto part = *subset(whole, {1, 3, 0});
  testing::internal::CaptureStderr();
  for (const auto& [set, damaged, instead] :
       {std::tuple{whole, 1, 2}, {std::shared_ptr<const Dataset>(part), 0, 1}}) {
    const DataPlan plan{
        .dataset_size = set->size(), .batch_size = 1, .seed = 5, .shuffle = Shuffle::kSequential};
    const auto loader = *Loader::make(set, plan);
    const auto batch = loader->get({{3, damaged}, 0});
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    const auto next = loader->get({{3, instead}, 0});
    EXPECT_THAT(batch->ids, ElementsAre(instead));
    EXPECT_THAT(batch->asked, ElementsAre(damaged));
    EXPECT_TRUE(next->asked.empty());
    EXPECT_TRUE(at::equal(batch->inputs, next->inputs));
    EXPECT_TRUE(at::equal(batch->targets, next->targets));
  }
  testing::internal::GetCapturedStderr();
}

TEST_F(PictureSets, NothingLeftIsAnEmptyBatch) {
  for (const Resize resize : {kSmall, Resize{8}}) {  // of known size, of the picture's
    const auto set = open({resize, ToTensor{}});
    const auto batch = set->get(std::vector<std::int64_t>{1}, {.training = true});
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    EXPECT_EQ(batch->size(), 0);
    const auto evaluated = evaluation_batch(*set, 1, 1);
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().message;
    EXPECT_EQ(evaluated->size(), 0);
    EXPECT_TRUE(evaluated->ids.empty());
    const auto part = *subset(set, {1});
    EXPECT_EQ((*evaluation_batch(*part, 1, 0)).size(), 0);
  }
}

TEST_F(PictureSets, ClassesOfTwoSetsAreComparedByName) {
  const auto set = open({kSmall, ToTensor{}});
  EXPECT_TRUE(check_same_classes(*set, *set, "Validation").ok());
  const test::TempFolder others;
  others.write("a/1.png", picture("png-2-8-0-33x18.png"));
  others.write("B/3.png", picture("png-2-8-0-33x18.png"));
  const auto other = open_image_folder(others.path(), {kSmall, ToTensor{}});
  ASSERT_TRUE(other.ok());
  const Status same = check_same_classes(*set, **other, "Validation");
  ASSERT_FALSE(same.ok());
  EXPECT_EQ(same.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(same.error().message, HasSubstr("Validation has no class 'b', and has 'B'"));
  EXPECT_THAT(same.error().message, HasSubstr("they differ only in capitals"));
}

// Another worker may still have it: were it left out here, their bits would differ.
TEST_F(PictureSets, AFileThatIsGoneIsAnError) {
  const auto set = open({kSmall, ToTensor{}});
  std::filesystem::remove(root_ / "b/3.png");
  const auto batch = set->get(std::vector<std::int64_t>{0, 2}, {});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().kind, ErrorKind::kDisk);
  EXPECT_THAT(batch.error().message, HasSubstr("3.png"));
}

TEST_F(PictureSets, DifferentSizesInABatchAreAnError) {
  const auto set = open({ToTensor{}});
  const auto same = set->get(std::vector<std::int64_t>{0, 3}, {});
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(same->inputs.sizes(), (at::IntArrayRef{2, 3, 47, 61}));
  const auto mixed = set->get(std::vector<std::int64_t>{0, 2}, {});
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(mixed.error().message, HasSubstr("18 x 33, others of its batch as 47 x 61"));
}

TEST_F(PictureSets, EqualOnAnyThreadAndInAnyBatch) {
  const auto set = open({RandomCrop{16, 16, 4}, ToTensor{}});
  const Pass pass{7, 3, true};
  const auto whole = set->get(std::vector<std::int64_t>{0, 2, 3}, pass);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  std::vector<at::Tensor> alone(3);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const std::vector<std::int64_t> id{
          std::array<std::int64_t, 3>{0, 2, 3}[static_cast<std::size_t>(i)]};
      alone[static_cast<std::size_t>(i)] = set->get(id, pass)->inputs;
    });
  threads.clear();
  EXPECT_TRUE(at::equal(at::cat(alone), whole->inputs));
  const auto later = set->get(std::vector<std::int64_t>{0, 2, 3}, {7, 4, true});
  EXPECT_FALSE(at::equal(later->inputs, whole->inputs));
}

// Pieces of several threads are one batch, of the size that was asked for.
TEST_F(PictureSets, LoadersGiveTheSameBatchesWithAnyThreads) {
  const std::shared_ptr<const Dataset> whole = open({RandomCrop{16, 16, 4}, ToTensor{}});
  const auto part = *subset(whole, {3, 1, 0, 2, 0, 1, 3, 3, 2, 0});
  testing::internal::CaptureStderr();
  for (const auto& set : {whole, part}) {
    const DataPlan plan{.dataset_size = set->size(), .batch_size = set->size(), .seed = 5};
    const auto plain = *Loader::make(set, plan);
    for (const int threads : {1, 2, 4}) {
      const auto loader = *Loader::make(set, plan, {.prefetch_threads = threads});
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        loader->prefetch({{{epoch, 0}, 0}, {{epoch + 1, 0}, 0}});
        const auto batch = loader->get({{epoch, 0}, 0});
        ASSERT_TRUE(batch.ok()) << batch.error().message;
        const auto ids = *(*DataOrder::make(plan))->ids({epoch, 0}, 0);
        EXPECT_EQ(batch->asked, ids);
        const auto alone = set->get(batch->ids, {5, epoch, true});
        for (const auto& expected : {plain->get({{epoch, 0}, 0}), alone}) {
          ASSERT_TRUE(expected.ok());
          EXPECT_EQ(expected->ids.size(), ids.size());
          EXPECT_EQ(batch->ids, expected->ids);
          EXPECT_TRUE(at::equal(batch->inputs, expected->inputs));
          EXPECT_TRUE(at::equal(batch->targets, expected->targets));
        }
      }
    }
  }
  testing::internal::GetCapturedStderr();
}

TEST_F(PictureSets, APartKeepsItsOwnNumbers) {
  const auto set = open({kSmall, ToTensor{}});
  const auto part = subset(set, {3, 1, 0});
  ASSERT_TRUE(part.ok());
  const auto batch = (*part)->get(std::vector<std::int64_t>{0, 1, 2}, {});
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_THAT(batch->ids, ElementsAre(0, 2));
  EXPECT_FALSE(subset(set, {4}).ok());
  EXPECT_FALSE((*part)->get(std::vector<std::int64_t>{3}, {}).ok());
  EXPECT_NE((*part)->fingerprint(), set->fingerprint());
}

// Names, classes and sizes in bytes stand for a folder's content.
TEST_F(PictureSets, AFolderThatChangedHasAnotherFingerprint) {
  namespace fs = std::filesystem;
  const fs::path root = root_.path();
  const auto seen = [&] { return open({kSmall, ToTensor{}})->fingerprint(); };
  const std::string before = seen();
  EXPECT_EQ(seen(), before);
  const auto changed_by = [&](const char* from, const char* to) {
    fs::rename(root / from, root / to);
    const std::string after = seen();
    fs::rename(root / to, root / from);
    return after != before;
  };
  EXPECT_TRUE(changed_by("a/1.jpg", "a/0.jpg")) << "renamed";
  EXPECT_TRUE(changed_by("a/1.jpg", "b/1.jpg")) << "in another class";
  EXPECT_TRUE(changed_by("a", "c")) << "a class of another name";
  EXPECT_EQ(seen(), before);
  fs::resize_file(root / "b/4.jpg", fs::file_size(root / "b/4.jpg") - 1);
  EXPECT_NE(seen(), before) << "shorter";
}

TEST_F(PictureSets, WrongListsAndLengthsAreRefused) {
  EXPECT_EQ(open_image_folder(root_.path(), {kSmall}).error().kind, ErrorKind::kUsage);
  const std::shared_ptr<const Dataset> set = open({kSmall, ToTensor{}});
  EXPECT_THAT(random_split(set, {1, 2}, 0).error().message, HasSubstr("sum to 3"));
  EXPECT_THAT(random_split(set, {1, 4}, 0).error().message, HasSubstr("4 after 1 do not fit"));
  EXPECT_THAT(random_split_fractions(set, {0.5, 0.4}, 0).error().message, HasSubstr("must be 1"));
  const auto parts = random_split_fractions(set, {0.4, 0.3, 0.3}, 0);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ((*parts)[0]->size() + (*parts)[1]->size() + (*parts)[2]->size(), 4);
  EXPECT_EQ((*parts)[0]->size(), 2) << "what is left over goes to the first";
}

}  // namespace
}  // namespace lockstep::data
