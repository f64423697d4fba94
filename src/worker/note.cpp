#include "worker/note.h"

#include "coord/version.h"

namespace lockstep::worker {
namespace {

// Sections of this name are notes to assembler and linker: --gc-sections keeps it, and it gets into
// a PT_NOTE segment, which strip keeps too.
[[gnu::section(".note.lockstep"), gnu::used, gnu::aligned(4)]] const coord::Note kInProgram =
    coord::kNote;

}  // namespace

void keep_note() {}

}  // namespace lockstep::worker
