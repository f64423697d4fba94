// Says which samples of a data set are left out as damaged: each once in a run, the first 20 of a
// kind by name.
// Threads: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "base/log.h"
#include "lockstep/data.h"

namespace lockstep::data {

class LeftOut {
 public:
  // `of`: "the training set", for people; the kind.
  explicit LeftOut(std::string of);

  // In training `sound` stands in for `id`.
  void say_replaced(const Dataset& set, std::int64_t id, std::int64_t sound);
  // Those of `asked` that are not in `given`, in an evaluation.
  void say_left_out(const Dataset& set, std::span<const std::int64_t> asked,
                    std::span<const std::int64_t> given);

 private:
  void say(const Dataset& set, std::int64_t id, const std::string& what_then);

  const std::string of_;
  std::mutex mutex_;
  LineRoom room_;
  bool full_ = false;  // told
};

// " (one of them: PATH: WHY)", for the end of a message; empty where nothing is known.
std::string because(const Dataset& set, std::int64_t id);

}  // namespace lockstep::data
