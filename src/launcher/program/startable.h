// Why execve() would refuse a file: it says "No such file or directory" of a script whose
// interpreter is missing, and "Exec format error" of nearly everything else.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace lockstep::launcher {

// kUsage for a file that cannot be executed on this machine: what is wrong with it, and what helps.
// Looks at it as the kernel does (execve(2)): its mode, "#!" and the interpreter's file in turn, an
// ELF file's processor and loader. `file` has a slash in it. What a handler of binfmt_misc might
// take is let pass.
Status check_startable(const std::string& file);

}  // namespace lockstep::launcher
