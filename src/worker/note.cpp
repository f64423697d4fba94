#include "worker/note.h"

// The same name and type are looked for in src/launcher/program.cpp. Type @note: the linker's
// --gc-sections keeps it, and it gets into a PT_NOTE segment, which strip keeps too.
__asm__(
    ".pushsection .note.lockstep, \"a\", @note\n"
    ".balign 4\n"
    ".long 9, 4, 1\n"  // bytes of the name, bytes of the description, type
    ".asciz \"Lockstep\"\n"
    ".balign 4\n"
    ".long 1\n"  // version of the talk between agent and program
    ".popsection\n");

namespace lockstep::worker {

void keep_note() {}

}  // namespace lockstep::worker
