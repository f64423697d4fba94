#include <array>
#include <string>

#include "base/suggest.h"
#include "inspect/checkpoint/verbs.h"

namespace lockstep::inspect {
namespace {

constexpr const char* kHelp =
    "usage: lockstep checkpoint VERB ...\n\n"
    "  ls DIR [--json]                     a run directory's checkpoints: step, size, age, whole "
    "or "
    "not\n"
    "  show DIR_OR_FILE [--json]           names, shapes, dtypes, sums\n"
    "  verify DIR_OR_FILE... [--json]      every byte against its hash; 65 if one is damaged\n"
    "  diff A B [--part NAME] [--json]     what differs; 0 if the bits are equal, 1 if not\n"
    "  export CKPT OUT.pt [--module NAME]  weights, or a module's, as a file for Python's "
    "torch.load\n\n"
    "DIR_OR_FILE: a run directory (its newest whole checkpoint), a checkpoint's folder, a\n"
    ".safetensors file, or a .pt file of torch.save. Nothing in them is ever run.\n";

}  // namespace

Result<Answer> checkpoint_command(Env& env, Words words) {
  if (words.empty()) return Error{ErrorKind::kUsage, kHelp};
  const std::string& verb = words.front();
  const Words rest = words.subspan(1);
  if (verb == "help" || verb == "--help" || verb == "-h") return Answer{kHelp};
  if (verb == "ls") return list_checkpoints(env, rest);
  if (verb == "show") return show_checkpoint(env, rest);
  if (verb == "verify") return verify_checkpoints(env, rest);
  if (verb == "diff") return diff_checkpoints(env, rest);
  if (verb == "export") return export_checkpoint(env, rest);
  const std::array<std::string, 6> known{"ls", "show", "verify", "diff", "export", "help"};
  return Error{ErrorKind::kUsage, "unknown verb '" + verb + "' of 'lockstep checkpoint'" +
                                      suggestion(verb, known) +
                                      " ('lockstep checkpoint help' lists them)"};
}

}  // namespace lockstep::inspect
