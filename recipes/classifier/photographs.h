// The tutorial's load_datasets(): photographs in folders by class, or in an archive of them.
#pragma once

#include <memory>

#include "lockstep/vision.h"
#include "options.h"

namespace classifier {

struct Photographs {
  using Set = std::shared_ptr<const lockstep::data::PictureSet>;
  Set train, validation;  // training's go through AutoAugment
  Set test;               // may be none
  std::int64_t classes() const { return static_cast<std::int64_t>(train->classes().size()); }
};

// In the folder itself or in the only one that it has. Errors: kBadData where Train or Validation
// is missing, a class is empty, or they have other classes; those of an archive.
lockstep::Result<Photographs> open_photographs(const Options& options);

}  // namespace classifier
