// torchvision's transforms of pictures, by its names, as a list of plain values:
//
//   using namespace lockstep::transforms;
//   const Compose augment{AutoAugment{}, Resize{244, 244}, ToTensor{}};
//
// Equal bit for bit to torchvision 0.26.0 over Pillow 12.0.0. Each sample of each epoch has a
// random stream of its own, torch.Generator().manual_seed(key) with key of (seed, epoch, sample)
// (docs/design/arithmetic.md), drawn in torchvision's order.
//
// Which set of pictures they are for: lockstep/vision.h. Errors: there. Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

namespace lockstep::transforms {

// To height x width; with width 0 the shorter side becomes `height`, and the longer one at most
// `max_side` (0: no limit). Bilinear with antialiasing.
struct Resize {
  int height = 0, width = 0, max_side = 0;
};
struct CenterCrop {
  int height = 0, width = 0;
};

using Colour = std::array<std::uint8_t, 3>;                     // red, green, blue
enum class Padding { kConstant, kEdge, kReflect, kSymmetric };  // torchvision's padding_mode
struct RandomCrop {
  int height = 0, width = 0;
  int padding = 0;  // on each side, before the crop
  bool pad_if_needed = false;
  Colour fill{};
  Padding mode = Padding::kConstant;
};
struct RandomHorizontalFlip {
  double p = 0.5;
};
struct RandomResizedCrop {
  int height = 0, width = 0;
  std::array<double, 2> scale = {0.08, 1.0};
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};
};

enum class AutoAugmentPolicy { kImageNet, kCifar10, kSvhn };
struct AutoAugment {
  AutoAugmentPolicy policy = AutoAugmentPolicy::kImageNet;
};

// To float32 [3, height, width], each value / 255.
struct ToTensor {};
struct Normalize {
  std::array<float, 3> mean{}, std{};
};

using Transform = std::variant<Resize, CenterCrop, RandomCrop, RandomHorizontalFlip,
                               RandomResizedCrop, AutoAugment, ToTensor, Normalize>;

// In order; the last is ToTensor, or ToTensor and Normalize.
using Compose = std::vector<Transform>;

}  // namespace lockstep::transforms
