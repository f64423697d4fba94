#include "data/image/autoaugment.h"

#include <cmath>

#include "data/image/operations.h"

namespace lockstep::data::image {
namespace {

constexpr int kSteps = 10;

// torch.linspace(start, end, 10)[i]: float32, from the nearer end.
float linspace(float start, float end, int i) {
  const float step = (end - start) / static_cast<float>(kSteps - 1);
  return i < kSteps / 2 ? start + step * static_cast<float>(i)
                        : end - step * static_cast<float>(kSteps - 1 - i);
}

float furthest_shift(int side) { return static_cast<float>(150.0 / 331.0 * side); }

bool is_signed(Operation operation) { return operation < Operation::kPosterize; }

float magnitude_of(const PolicyStep& step, const Canvas& canvas) {
  constexpr std::array<float, kSteps> kBits = {8, 8, 7, 7, 6, 6, 5, 5, 4, 4};
  switch (step.operation) {
    case Operation::kShearX:
    case Operation::kShearY:
      return linspace(0, 0.3F, step.magnitude);
    case Operation::kTranslateX:
      return linspace(0, furthest_shift(canvas.width()), step.magnitude);
    case Operation::kTranslateY:
      return linspace(0, furthest_shift(canvas.height()), step.magnitude);
    case Operation::kRotate:
      return linspace(0, 30, step.magnitude);
    case Operation::kBrightness:
    case Operation::kColor:
    case Operation::kContrast:
    case Operation::kSharpness:
      return linspace(0, 0.9F, step.magnitude);
    case Operation::kPosterize:
      return kBits[static_cast<std::size_t>(step.magnitude)];
    case Operation::kSolarize:
      return linspace(255, 0, step.magnitude);
    default:
      return 0;
  }
}

void apply(Canvas& canvas, Operation operation, double magnitude) {
  switch (operation) {
    case Operation::kShearX:
      return shear(canvas, {std::atan(magnitude), 0});
    case Operation::kShearY:
      return shear(canvas, {0, std::atan(magnitude)});
    case Operation::kTranslateX:
      return translate(canvas, {std::trunc(magnitude), 0});
    case Operation::kTranslateY:
      return translate(canvas, {0, std::trunc(magnitude)});
    case Operation::kRotate:
      return rotate(canvas, magnitude);
    case Operation::kBrightness:
      return adjust_brightness(canvas, 1.0 + magnitude);
    case Operation::kColor:
      return adjust_saturation(canvas, 1.0 + magnitude);
    case Operation::kContrast:
      return adjust_contrast(canvas, 1.0 + magnitude);
    case Operation::kSharpness:
      return adjust_sharpness(canvas, 1.0 + magnitude);
    case Operation::kPosterize:
      return posterize(canvas, static_cast<int>(magnitude));
    case Operation::kSolarize:
      return solarize(canvas, magnitude);
    case Operation::kAutoContrast:
      return autocontrast(canvas);
    case Operation::kEqualize:
      return equalize(canvas);
    case Operation::kInvert:
      return invert(canvas);
  }
}

}  // namespace

void auto_augment(Canvas& canvas, AutoAugmentPolicy policy, SampleRandom& random) {
  const PolicyPair& pair = policy_pairs(policy)[random.below(kPolicyPairs)];
  std::array<float, 2> chances{};
  for (float& chance : chances) chance = random.uniform();
  std::array<bool, 2> negative{};
  for (bool& minus : negative) minus = random.below(2) == 0;
  for (std::size_t i = 0; i < pair.size(); ++i) {
    if (chances[i] > pair[i].probability) continue;
    const double magnitude = magnitude_of(pair[i], canvas);
    const bool minus = negative[i] && is_signed(pair[i].operation);
    apply(canvas, pair[i].operation, minus ? -magnitude : magnitude);
  }
}

}  // namespace lockstep::data::image
