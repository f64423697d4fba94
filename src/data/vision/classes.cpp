#include <algorithm>

#include "lockstep/vision.h"

namespace lockstep::data {
namespace {

// "'Cross'", the first of `some` that is not in `others`; empty: there is none.
std::string alone_in(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  const auto found = std::ranges::find_if(
      some, [&](const std::string& name) { return std::ranges::count(others, name) == 0; });
  return found == some.end() ? "" : "'" + *found + "'";
}

}  // namespace

Status check_same_classes(const PictureSet& train, const PictureSet& other,
                          const std::string& name) {
  const auto &ours = train.classes(), &theirs = other.classes();
  if (ours == theirs) return {};
  const std::string missing = alone_in(ours, theirs), added = alone_in(theirs, ours);
  std::string what = missing.empty() ? "" : " has no class " + missing;
  if (!added.empty()) what += (what.empty() ? "" : ", and") + (" has " + added);
  if (what.empty()) what = " has the same in another order";
  return Error{ErrorKind::kBadData,
               "the training set has " + std::to_string(ours.size()) + " classes and " + name +
                   " " + std::to_string(theirs.size()) + ": " + name + what +
                   ", so that labels would mean other classes; the same folders must be in both"};
}

}  // namespace lockstep::data
