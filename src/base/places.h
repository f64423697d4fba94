// A run's directory and the files in it, under the names by which others look for them.
//
// A directory may be moved, replaced and put back under a live run: what is open in it is written
// to wherever it is, so nothing is lost with it, and whoever asks waits a moment for it. All say it
// in the same words.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep {

class Places {
 public:
  // What is at the path now, and has this identity.
  struct Place {
    std::string path;
    FileId id;
  };

  // The first path is the directory that holds the others. `env` must outlive the object.
  static Result<Places> of(Env& env, const std::vector<std::string>& paths);
  Places(Env& env, std::vector<Place> places) : env_(&env), places_(std::move(places)) {}

  struct Missing {
    Error error;     // kDisk
    bool directory;  // all of it: it may be put back; else one of its files, which is lost
  };
  // What is not there any more, though waited for, 1 s at most. Threads: any.
  std::optional<Missing> missing() const;
  // Now.
  bool has_directory() const { return is_there(places_.front()); }

 private:
  bool is_there(const Place& place) const;
  Env* env_;
  std::vector<Place> places_;
};

}  // namespace lockstep
