// Data sets of pictures: folders by class, CIFAR-10 and CIFAR-100, delivered through a list of
// transforms, as torchvision.datasets does.
//
//   using namespace lockstep::transforms;
//   auto train = lockstep::data::open_cifar10("data", lockstep::data::Split::kTrain,
//       {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToTensor{},
//        Normalize{{0.4914F, 0.4822F, 0.4465F}, {0.247F, 0.243F, 0.261F}}});
//
// Inputs float32 [B, 3, H, W], targets int64 [B]. What is drawn at random is a function of
// (Pass::seed, Pass::epoch, sample id) alone: no thread, worker or batch has a part in it.
//
// A picture that is damaged, or too small for a crop, is left out of its batch, named once in a run
// and counted: in training a Loader has another one in its place, in an evaluation the batch is
// shorter, or empty (Batch::ids says what is in it). Errors of get(): kDisk for a file that cannot
// be read, kUsage where pictures come out in different sizes: end with a crop or a Resize to two
// sizes. Threads: any number may call get().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data.h"
#include "lockstep/status.h"
#include "lockstep/transforms.h"

namespace lockstep::data {

class PictureSet : public Dataset {
 public:
  virtual const std::vector<std::string>& classes() const = 0;  // names, by label
  virtual std::int64_t label(std::int64_t id) const = 0;        // id within the set
  virtual std::string name(std::int64_t id) const = 0;          // its path, or "cifar-10 train 17"
  // Damaged pictures, so far, among those that this process has read.
  virtual std::int64_t left_out() const = 0;
};

// Of sets that one model sees: labels must mean the same. kBadData that says which classes are in
// one alone, with the bytes of names that look alike; `name`: the other's, for the message
// ("Validation"). Trainer::fit() asks so, too.
Status check_same_classes(const PictureSet& train, const PictureSet& other,
                          const std::string& name);

// torchvision.datasets.ImageFolder(root): root/CLASS/**/NAME.jpg, .jpeg or .png (in capitals too),
// its order and its labels; the content decides how a file is decoded. What is not in the set by
// its name (other endings, "._NAME" of macOS, hidden folders without a picture) is told once, with
// counts. kBadData where there is no class, or one without a picture. The fingerprint is of names
// and sizes.
Result<std::shared_ptr<const PictureSet>> open_image_folder(const std::string& root,
                                                            transforms::Compose transform);

// Pickles (cifar-10-batches-py) or binary files (cifar-10-batches-bin) in `root` or in a folder of
// that name below it. Held in memory: 154 MB for the training set.
Result<std::shared_ptr<const PictureSet>> open_cifar10(const std::string& root, Split split,
                                                       transforms::Compose transform);
// The same, with the 100 fine labels: cifar-100-python or cifar-100-binary.
Result<std::shared_ptr<const PictureSet>> open_cifar100(const std::string& root, Split split,
                                                        transforms::Compose transform);

}  // namespace lockstep::data
