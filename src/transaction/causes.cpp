#include "transaction/causes.h"

#include <vector>

namespace lockstep::transaction {
namespace {

constexpr const char* kKept =
    "what is kept from step to step (a pool, a replay buffer, an environment): state.add(), "
    "add_carried()";
constexpr const char* kLacking =
    "what only those have who were there before (a replay buffer, a target network): state.add(), "
    "add_carried()";
constexpr const char* kAssigned =
    "a module's member that was assigned anew (net->weight = …): copy_(), as the state has the "
    "earlier one";
constexpr const char* kCounter = "a counter or the clock: share.global_step()";
constexpr const char* kRandom = "random numbers of your own: seed them by share.seed()";
constexpr const char* kRank = "rank() or world_size(): share.virtual_worker(); V is run_so_far()'s";
constexpr const char* kLoader = "a data loader around run(): share.batch()";
constexpr const char* kBatch = "what the closure writes to its batch: clone() it first";

constexpr const char* kBuild =
    "another build of the program, other libraries, options, variables or files there: the same on "
    "all hosts";
constexpr const char* kCpu =
    "another model of CPU there, for which MKL and oneDNN choose other code: MKL_CBWR, "
    "ONEDNN_MAX_CPU_ISA";

constexpr const char* kHook =
    "a hook (on_update()) that reads what is not in the state (a network, a counter, a variable of "
    "the loop): state.add()";
constexpr const char* kBehind =
    "the loop, behind run(), where a newcomer misses the step that it comes in with: on_update()";
constexpr const char* kBetween =
    "the loop, between next() and run(), by the rank, a counter or how often it has gone round: "
    "step.global_step(), state.add()";

constexpr const char* kMember =
    "a module's member that is no buffer (an average, ++calls, a momentum): register_buffer()";

using Causes = std::vector<const char*>;

Causes of_share(const Circumstances& in) {
  if (in.by == Again::kNewcomer) return {kLacking, kAssigned, kCounter, kRandom, kRank};
  if (in.by == Again::kOtherHost && in.first_step)
    return {kBuild, kCpu, kRank, kLoader, kRandom, kCounter};
  if (in.by == Again::kOtherHost) return {kKept, kBuild, kCpu, kCounter, kRandom, kRank};
  if (in.by == Again::kSameWorker) return {kCounter, kKept, kRandom, kBatch};
  if (in.first_step) return {kRank, kLoader, kRandom, kCounter, kKept, kBatch};
  return {kKept, kCounter, kRandom, kRank, kLoader, kBatch};
}

std::string lines_of(const char* rule, const Causes& causes, const char* page) {
  std::string text = std::string("\n  ") + rule + ". The likeliest first:";
  for (const char* cause : causes) text += std::string("\n  - ") + cause;
  return text + "\n  docs/guide/own_loop.md, " + page;
}

}  // namespace

std::string causes_of(const Difference& differs, const Circumstances& in) {
  if (differs.in == Difference::In::kState) return causes_of_states(in.hooks);  // modes change none
  if (differs.modes) return kSetModesAlike;
  Causes causes = of_share(in);
  if (differs.in == Difference::In::kBuffer) causes.insert(causes.begin(), kMember);
  return lines_of("In the closure a share may depend on the train state and on its Share alone",
                  causes,
                  "\"What is checked\"; --rehearse 0 leaves this out, and equal weights are not "
                  "promised then");
}

std::string causes_of_states(bool hooks) {
  return lines_of("What is written to the train state may depend on that and on the step alone",
                  hooks ? Causes{kHook, kBehind, kBetween} : Causes{kBehind, kBetween},
                  "\"Four places\"");
}

}  // namespace lockstep::transaction
