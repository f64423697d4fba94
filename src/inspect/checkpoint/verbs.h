// One function per verb of `lockstep checkpoint`; they get the words after the verb.
#pragma once

#include "inspect/commands.h"

namespace lockstep::inspect {

Result<Answer> list_checkpoints(Env& env, Words words);    // DIR [--json]
Result<Answer> show_checkpoint(Env& env, Words words);     // DIR_OR_FILE [--json]
Result<Answer> verify_checkpoints(Env& env, Words words);  // DIR_OR_FILE... [--json]; 65: damage
Result<Answer> diff_checkpoints(Env& env, Words words);    // A B [--part NAME] [--json]; 1: differ
Result<Answer> export_checkpoint(Env& env, Words words);   // CKPT OUT.pt [--module NAME]

}  // namespace lockstep::inspect
