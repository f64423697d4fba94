// The tutorial's create_dataloaders(): photographs in folders by class, split by seed 42.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lockstep/vision.h"
#include "options.h"

namespace time_budget {

struct Photographs {
  std::shared_ptr<const lockstep::data::PictureSet> all;
  std::shared_ptr<const lockstep::data::Dataset> train, validation;
  std::int64_t classes() const { return static_cast<std::int64_t>(all->classes().size()); }
};

// Errors: those of open_image_folder(); kBadData where nothing would be left to validate.
lockstep::Result<Photographs> open_photographs(const Options& options);

// What a run is known by besides RunOptions: the pictures' size, the classifier's, the classes.
std::map<std::string, std::string> identity_of(const Options& options,
                                               const Photographs& photographs);

}  // namespace time_budget
