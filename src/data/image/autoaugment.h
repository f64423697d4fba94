// torchvision's AutoAugment: a pair of operations out of 25, each with its probability and
// magnitude. Source: Cubuk et al., AutoAugment (arXiv 1805.09501); tables and arithmetic of
// torchvision 0.26.0, transforms/autoaugment.py, with its defaults (nearest neighbour, black fill).
#pragma once

#include <array>
#include <optional>

#include "data/image/canvas.h"
#include "data/image/sample_random.h"
#include "lockstep/transforms.h"

namespace lockstep::data::image {

using transforms::AutoAugmentPolicy;

enum class Operation {
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
};

struct PolicyStep {
  Operation operation;
  float probability;
  int magnitude;  // 0 to 9; -1: the operation has none
};
using PolicyPair = std::array<PolicyStep, 2>;
inline constexpr std::size_t kPolicyPairs = 25;
const std::array<PolicyPair, kPolicyPairs>& policy_pairs(AutoAugmentPolicy policy);

// Draws the pair, two numbers for the probabilities and two signs, whatever is used of them.
void auto_augment(Canvas& canvas, AutoAugmentPolicy policy, SampleRandom& random);

}  // namespace lockstep::data::image
