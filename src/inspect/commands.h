// What `lockstep checkpoint`, `lockstep report` and `lockstep data show` do. Each gets the words
// after its name, reads and writes files, and gives back what to print; nothing is printed here.
//
// Errors: as docs/guide/errors.md has them. Threads: any.
#pragma once

#include <span>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::inspect {

struct Answer {
  std::string text;  // for standard output
  int code = 0;      // the program's exit code
};

using Words = std::span<const std::string>;

Result<Answer> checkpoint_command(Env& env, Words words);  // ls | show | verify | diff | export
Result<Answer> report_command(Env& env, Words words);
Result<Answer> data_command(Env& env, Words words);  // show

}  // namespace lockstep::inspect
