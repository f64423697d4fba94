// The ELF note by which `lockstep run` knows a program that links Lockstep.
#pragma once

namespace lockstep::worker {

// Does nothing; a reference to it pulls the object with the note out of the static library.
void keep_note();

}  // namespace lockstep::worker
