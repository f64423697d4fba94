// What every program of ours does first, before it opens anything, and before it forks or ends.
#pragma once

#include <string_view>

#include "lockstep/status.h"

namespace lockstep {

// Opens /dev/null as standard input, output and error where they are closed: the next file would
// get the number, and lines for people would end up in it. And a write beyond `ulimit -f` becomes
// an error to report instead of a reason to die. And threads get a stack of 1 MiB at least, where
// `ulimit -s` would give them less. Once, from main's thread.
void prepare_process();

// kUsage if it was removed: MKL would be the first to say it, in its own way.
Status check_working_directory();

// False where main() has begun in another process of the launch, or in a predecessor, already. Read
// once: what this program starts itself has a first main of its own. (lockstep/context.h has it for
// users.)
inline constexpr const char* kLaterMainVariable = "LOCKSTEP_LATER_MAIN";
[[nodiscard]] bool is_first_main();

// All that the program has written to C's and C++'s streams, before fork() or _exit().
void flush_outputs();

// All of `text` to standard output, flushed. kDisk: a full disk, a reader that is gone.
Status write_output(std::string_view text);

}  // namespace lockstep
