// Signals that ask for an end, in launched workers that take part in transactions: a worker does
// not die of one in the middle of a step. What is to become of it, or of the run, the coordinator
// decides (coord/host_signals.cpp), which sees on the board that it has come.
//
// A process has one set of handlers: this is the process's. Threads: main's; signals come to any.
#pragma once

#include "coord/board.h"

namespace lockstep::worker {

// TERM, INT, HUP and those that kSignalsVariable lists, unless the program has a handler of its own
// or ignores them: from here on they are noted.
void catch_stop_signals();
// Shows in `word` the first one, which may have come already.
void show_stop_signals(coord::Word& word);
// Back to the system's defaults; nothing is shown any more. Returns the one that has come; 0: none.
int release_stop_signals();

}  // namespace lockstep::worker
