#include "photographs.h"

namespace time_budget {

using lockstep::transforms::Compose;
using lockstep::transforms::Normalize;
using lockstep::transforms::Resize;
using lockstep::transforms::ToTensor;

lockstep::Result<Photographs> open_photographs(const Options& options) {
  constexpr std::uint64_t kSplitSeed = 42;
  const auto side = static_cast<int>(options.image_size);
  const Compose transform{Resize{side, side}, ToTensor{},
                          Normalize{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}};
  Photographs found;
  LOCKSTEP_ASSIGN(found.all, lockstep::data::open_image_folder(options.data, transform));
  if (!options.evaluate.empty()) return found;
  // floor(0.2 n), and ceil(0.8 n), which is the rest, as Python's doubles have it for any n below
  // a billion.
  const std::int64_t size = found.all->size(), validation = size / 5;
  if (validation == 0)
    return lockstep::Error{lockstep::ErrorKind::kBadData,
                           "'" + options.data + "' has " + std::to_string(size) +
                               " photographs: a fifth of them validates, so 5 is the least"};
  LOCKSTEP_ASSIGN(auto parts, lockstep::data::random_split(
                                  found.all, {size - validation, validation}, kSplitSeed));
  found.train = std::move(parts[0]);
  found.validation = std::move(parts[1]);
  return found;
}

std::map<std::string, std::string> identity_of(const Options& options,
                                               const Photographs& photographs) {
  std::string classes;  // no folder's name has a slash in it
  for (const std::string& name : photographs.all->classes())
    classes += (classes.empty() ? "" : "/") + name;
  return {{"image_size", std::to_string(options.image_size)},
          {"classifier_width", std::to_string(options.classifier_width)},
          {"classes", classes}};
}

}  // namespace time_budget
