#include <algorithm>
#include <utility>

#include "base/suggest.h"
#include "data/vision/look_alike.h"
#include "lockstep/vision.h"

namespace lockstep::data {
namespace {

using ClassNames = std::vector<std::string>;

// Those of `some` that are not in `others`, by their bytes.
ClassNames alone_in(const ClassNames& some, const ClassNames& others) {
  ClassNames sorted = others, alone;
  std::ranges::sort(sorted);
  std::ranges::copy_if(some, std::back_inserter(alone), [&](const std::string& name) {
    return !std::ranges::binary_search(sorted, name);
  });
  return alone;
}

// "'Cross'", "'Cross' and 3 others", starting with the one at `first`.
std::string named(const ClassNames& names, std::size_t first) {
  const std::size_t others = names.size() - 1;
  return "'" + names[first] + "'" +
         (others == 0 ? ""
                      : " and " + std::to_string(others) + (others == 1 ? " other" : " others"));
}

// Of each the number of one that looks like the other's, and in what they differ; else the first.
struct Pair {
  std::size_t missing = 0, added = 0;
  std::string difference;
};

Pair pair_of(const ClassNames& missing, const ClassNames& added) {
  for (std::size_t i = 0; i < missing.size(); ++i)
    for (std::size_t j = 0; j < added.size(); ++j)
      if (std::string difference = only_difference(missing[i], added[j]); !difference.empty())
        return {i, j, std::move(difference)};
  return {};
}

std::string hint(const ClassNames& missing, const ClassNames& added, const Pair& pair) {
  if (missing.empty() || added.empty()) return "";
  if (pair.difference.empty()) {
    const auto near = nearest_name(missing[pair.missing], added);
    return near ? "; the nearest there is '" + *near + "'" : "";
  }
  return "; they differ only " + pair.difference + ": the bytes are '" +
         shown_bytes(missing[pair.missing]) + "' and '" + shown_bytes(added[pair.added]) +
         "', rename one";
}

}  // namespace

Status check_same_classes(const PictureSet& train, const PictureSet& other,
                          const std::string& name) {
  const auto &ours = train.classes(), &theirs = other.classes();
  if (ours == theirs) return {};
  const ClassNames missing = alone_in(ours, theirs), added = alone_in(theirs, ours);
  const Pair pair = pair_of(missing, added);
  std::string what = missing.empty() ? "" : " has no class " + named(missing, pair.missing);
  if (!added.empty()) what += (what.empty() ? "" : ", and") + (" has " + named(added, pair.added));
  if (what.empty()) what = " has the same in another order";
  return Error{ErrorKind::kBadData,
               "the training set has " + std::to_string(ours.size()) + " classes and " + name +
                   " " + std::to_string(theirs.size()) + ": " + name + what +
                   ", so that labels would mean other classes; the same folders must be in both" +
                   hint(missing, added, pair)};
}

}  // namespace lockstep::data
