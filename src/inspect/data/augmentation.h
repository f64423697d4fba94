// A list of transforms as words: `--augment crop=32:4,flip`, and back as torchvision writes it.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "lockstep/transforms.h"

namespace lockstep::inspect {

inline constexpr std::string_view kAugmentWords =
    "none, or of these, separated by commas: autoaugment[=imagenet|cifar10|svhn], "
    "crop=SIDE[:PADDING], flip[=P], resized-crop=SIDE, resize=SIDE, resize=HEIGHTxWIDTH, "
    "center-crop=SIDE";

// Without ToTensor. kUsage names the word and lists all.
Result<transforms::Compose> parse_augmentation(std::string_view words);

std::string described(const transforms::Compose& steps);  // "RandomCrop(32, padding=4), ..."

}  // namespace lockstep::inspect
