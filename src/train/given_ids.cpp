#include "train/given_ids.h"

#include <string>

namespace lockstep::training {

Result<std::int64_t> missing_samples(const data::Batch& batch, std::int64_t asked) {
  const auto given = static_cast<std::int64_t>(batch.ids.size());
  if (given == asked || (given < asked && batch.size() == given)) return asked - given;
  return Error{ErrorKind::kUsage, "the data set was asked for " + std::to_string(asked) +
                                      " samples and gave the ids of " + std::to_string(given) +
                                      ": Batch::ids must be of those that it was asked for, and of "
                                      "each that it gives"};
}

}  // namespace lockstep::training
