// A data set as a page: class counts by split, labelled samples, and training samples before and
// after augmentation. The same set and options give the same bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "inspect/data/pictures.h"

namespace lockstep::inspect {

struct SheetOptions {
  std::size_t samples = 4;           // of each class of each split
  transforms::Compose augmentation;  // without ToTensor; empty: none is shown
};

struct Sheet {
  std::string html;
  std::vector<std::string> damaged;  // pictures that were to be shown, and why they are not
};

// kUsage for an augmentation that cannot be.
Result<Sheet> make_sheet(const PictureData& data, const std::string& title,
                         const SheetOptions& options);

// Of `all` things, at most `wanted`, evenly: the first is among them.
std::vector<std::size_t> spread(std::size_t all, std::size_t wanted);

// By class, in order: the indices of its pictures.
std::vector<std::vector<std::size_t>> by_class(const Split& split);

}  // namespace lockstep::inspect
