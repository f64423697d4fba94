// The control groups that a process is in (cgroups(7)), of version 1 and of version 2, wherever
// they are mounted here (/proc/PID/mountinfo, proc(5)).
//
// Threads: any. Errors: none; what cannot be read, or is mounted nowhere, is not there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"

namespace lockstep {

struct ControlGroup {
  bool v2 = false;
  std::string mount;   // of its hierarchy
  std::string folder;  // its files; `mount`, or below it
};

class ControlGroups {
 public:
  // As they are mounted now. `env` must outlive the object.
  explicit ControlGroups(Env& env);

  // Where `controller` ("cpu", "freezer") may say something of the process ("self", or its number):
  // in v1's hierarchy that has it, and in v2's.
  std::vector<ControlGroup> of(std::string_view process, std::string_view controller) const;
  // A file of a group; empty: it has none of that name.
  std::string read(const ControlGroup& group, std::string_view name) const;

 private:
  struct Hierarchy {
    bool v2 = false;
    std::string mount, root;               // where it is mounted, and which group is seen there
    std::vector<std::string> controllers;  // of v1, and options of the mount
  };
  static bool parse(const std::string& line, Hierarchy& hierarchy);

  Env& env_;
  std::vector<Hierarchy> hierarchies_;
};

}  // namespace lockstep
