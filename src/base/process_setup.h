// What every program of ours does first, before it opens anything.
#pragma once

namespace lockstep {

// Opens /dev/null as standard input, output and error where they are closed: the next file would
// get the number, and lines for people would end up in it. And a write beyond `ulimit -f` becomes
// an error to report instead of a reason to die. Once, from main's thread.
void prepare_process();

}  // namespace lockstep
