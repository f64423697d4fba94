#include "inspect/data/augmentation.h"

#include <array>
#include <optional>

#include "base/text.h"

namespace lockstep::inspect {
namespace {

using namespace transforms;  // NOLINT(google-build-using-namespace): a table of its names

struct Word {
  std::string_view name, value;
  bool has_value = false;
};

struct Halves {
  std::string_view first;
  std::optional<std::string_view> second;  // none: there is no such mark
};
Halves halves(std::string_view text, char mark) {
  const std::size_t found = text.find(mark);
  if (found == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, found), text.substr(found + 1)};
}

std::optional<Transform> autoaugment(const Word& word) {
  if (!word.has_value || word.value == "imagenet") return AutoAugment{};
  if (word.value == "cifar10") return AutoAugment{AutoAugmentPolicy::kCifar10};
  if (word.value == "svhn") return AutoAugment{AutoAugmentPolicy::kSvhn};
  return std::nullopt;
}

std::optional<Transform> crop(const Word& word) {
  const auto [side_text, padding_text] = halves(word.value, ':');
  const auto side = number_of<int>(side_text);
  const auto padding = padding_text ? number_of<int>(*padding_text) : 0;
  if (!side || !padding) return std::nullopt;
  return RandomCrop{*side, *side, *padding};
}

std::optional<Transform> resize(const Word& word) {
  const auto [height_text, width_text] = halves(word.value, 'x');
  const auto height = number_of<int>(height_text);
  const auto width = width_text ? number_of<int>(*width_text) : 0;
  if (!height || !width) return std::nullopt;
  return Resize{*height, *width};
}

std::optional<Transform> transform_of(const Word& word) {
  if (word.name == "autoaugment") return autoaugment(word);
  if (word.name == "crop") return crop(word);
  if (word.name == "resize") return resize(word);
  if (word.name == "flip" && !word.has_value) return RandomHorizontalFlip{};
  if (word.name == "flip") {
    const auto p = number_of<double>(word.value);
    return p ? std::optional<Transform>(RandomHorizontalFlip{*p}) : std::nullopt;
  }
  const auto side = number_of<int>(word.value);
  if (!side) return std::nullopt;
  if (word.name == "resized-crop") return RandomResizedCrop{*side, *side};
  if (word.name == "center-crop") return CenterCrop{*side, *side};
  return std::nullopt;
}

std::string size_text(int height, int width) {
  return height == width || width == 0
             ? std::to_string(height)
             : "(" + std::to_string(height) + ", " + std::to_string(width) + ")";
}

struct Describe {
  std::string operator()(const Resize& step) const {
    return step.width == 0 ? "Resize(" + std::to_string(step.height) + ")"
                           : "Resize((" + std::to_string(step.height) + ", " +
                                 std::to_string(step.width) + "))";
  }
  std::string operator()(const CenterCrop& step) const {
    return "CenterCrop(" + size_text(step.height, step.width) + ")";
  }
  std::string operator()(const RandomCrop& step) const {
    const std::string padding =
        step.padding == 0 ? "" : ", padding=" + std::to_string(step.padding);
    return "RandomCrop(" + size_text(step.height, step.width) + padding + ")";
  }
  std::string operator()(const RandomHorizontalFlip& step) const {
    return "RandomHorizontalFlip(" + shortest(step.p) + ")";
  }
  std::string operator()(const RandomResizedCrop& step) const {
    return "RandomResizedCrop(" + size_text(step.height, step.width) + ")";
  }
  std::string operator()(const AutoAugment& step) const {
    constexpr std::array<const char*, 3> kNames{"IMAGENET", "CIFAR10", "SVHN"};
    return std::string("AutoAugment(") + kNames[static_cast<std::size_t>(step.policy)] + ")";
  }
  std::string operator()(const ToTensor&) const { return "ToTensor()"; }
  std::string operator()(const Normalize&) const { return "Normalize(...)"; }
};

}  // namespace

Result<Compose> parse_augmentation(std::string_view words) {
  Compose steps;
  if (words == "none") return steps;
  while (true) {
    const std::size_t comma = words.find(',');
    const std::string_view each = words.substr(0, comma);
    const auto [name, value] = halves(each, '=');
    const auto step = transform_of({name, value.value_or(""), value.has_value()});
    if (!step)
      return Error{ErrorKind::kUsage, "--augment: '" + std::string(each) +
                                          "' is not known; it takes " + std::string(kAugmentWords)};
    steps.push_back(*step);
    if (comma == std::string_view::npos) return steps;
    words.remove_prefix(comma + 1);
  }
}

std::string described(const Compose& steps) {
  std::string text;
  for (const Transform& step : steps)
    text += (text.empty() ? "" : ", ") + std::visit(Describe{}, step);
  return text;
}

}  // namespace lockstep::inspect
