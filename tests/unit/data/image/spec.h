// Lists of transforms as words, for tests: "RandomCrop:32,32,4 Flip:0.5 ToTensor Normalize".
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "data/image/transforms.h"

namespace lockstep::data::image {

inline std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) numbers.push_back(std::stod(part));
  return numbers;
}

inline Padding padding_of(double code) { return static_cast<Padding>(static_cast<int>(code)); }

// Exits where the word is not known: a test's own mistake.
inline Transform step_of(const std::string& word) {
  const std::string name = word.substr(0, word.find(':'));
  std::vector<double> n =
      name.size() < word.size() ? numbers_of(word.substr(name.size() + 1)) : std::vector<double>{};
  n.resize(8);
  const auto whole = [&](std::size_t i) { return static_cast<int>(n[i]); };
  if (name == "Resize") return Resize{whole(0), whole(1), whole(2)};
  if (name == "CenterCrop") return CenterCrop{whole(0), whole(1)};
  if (name == "RandomCrop") {
    const auto grey = static_cast<std::uint8_t>(whole(4));
    return RandomCrop{whole(0),  whole(1),           whole(2),
                      n[3] != 0, {grey, grey, grey}, padding_of(n[5])};
  }
  if (name == "Flip") return RandomHorizontalFlip{n[0]};
  if (name == "RandomResizedCrop") {
    RandomResizedCrop step{whole(0), whole(1)};
    if (n[2] > 0) step.scale = {n[2], n[3]};
    if (n[4] > 0) step.ratio = {n[4], n[5]};
    return step;
  }
  if (name == "AutoAugment") return AutoAugment{static_cast<AutoAugmentPolicy>(whole(0))};
  if (name == "ToTensor") return ToTensor{};
  if (name == "Normalize") return Normalize{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  std::fprintf(stderr, "no transform %s\n", word.c_str());
  std::exit(2);
}

inline std::vector<Transform> steps_of(const std::string& text) {
  std::vector<Transform> steps;
  std::istringstream in(text);
  for (std::string word; in >> word;) steps.push_back(step_of(word));
  return steps;
}

}  // namespace lockstep::data::image
