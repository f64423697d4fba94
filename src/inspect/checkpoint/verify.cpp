// `lockstep checkpoint verify`.
#include <limits>

#include "checkpoint/search.h"
#include "checkpoint/store.h"
#include "inspect/arguments.h"
#include "inspect/checkpoint/bundle.h"
#include "inspect/checkpoint/json.h"
#include "inspect/checkpoint/verbs.h"
#include "inspect/files.h"
#include "inspect/text.h"
#include "rundir/names.h"

namespace lockstep::inspect {
namespace {

struct Verified {
  std::string path;
  bool whole = false;
  std::string words;  // what was looked at, or what is wrong
};

Verified verify_folder(Env& env, const std::string& path) {
  const auto found = checkpoint::load_checkpoint_at(env, path, {}, {});
  if (!found.ok()) return {path, false, found.error().message};
  std::uint64_t bytes = 0;
  for (const checkpoint::FileEntry& file : found->manifest.files) bytes += file.size;
  return {path, true,
          counted(found->manifest.files.size(), "file") + ", " + bytes_text(bytes) +
              ", each with its hash"};
}

// Reads every tensor: what a file alone can say of itself.
Verified verify_file(Env& env, const std::string& path) {
  const auto bundle = open_bundle(env, path);
  if (!bundle.ok()) return {path, false, bundle.error().message};
  std::uint64_t tensors = 0, leaves = 0;
  for (const Part& part : bundle->parts)
    for (const Tensor& tensor : part.tensors) {
      if (!tensor.load) {
        ++leaves;
        continue;
      }
      if (const auto bytes = tensor.load(); !bytes.ok())
        return {path, false, bytes.error().message};
      ++tensors;
    }
  const bool safetensors = bundle->kind == BundleKind::kSafetensors;
  std::string words = counted(tensors, "tensor") + ", readable";
  if (leaves > 0) words += "; " + std::to_string(leaves) + " of kinds that are not read";
  words += safetensors ? "; a safetensors file has no hashes"
                       : "; what a zip has checksums of, has them";
  return {path, true, words};
}

Result<std::vector<Verified>> verify(Env& env, const std::string& given) {
  const std::string path = checkpoint::led_to(env, given);
  if (is_checkpoint_folder(env, path)) return std::vector{verify_folder(env, path)};
  if (!is_run_directory(env, path)) {
    if (!is_file(path)) return not_a_bundle(env, path);
    return std::vector{verify_file(env, path)};
  }
  LOCKSTEP_ASSIGN(const auto steps, checkpoint::list_steps(env, path));
  if (steps.empty())
    return Error{ErrorKind::kBadData,
                 "no checkpoint in '" + path + "': there is nothing to verify"};
  std::vector<Verified> all;
  all.reserve(steps.size());
  for (const std::uint64_t step : steps)
    all.push_back(
        verify_folder(env, checkpoint::checkpoints_dir(path) + "/" + rundir::step_name(step)));
  return all;
}

}  // namespace

Result<Answer> verify_checkpoints(Env& env, Words words) {
  const Syntax syntax{"lockstep checkpoint verify DIR_OR_FILE... [--json]",
                      {"--json"},
                      {},
                      1,
                      std::numeric_limits<std::size_t>::max()};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words, syntax));
  Answer answer;
  Json json = Json::array();
  for (const std::string& path : arguments.paths) {
    LOCKSTEP_ASSIGN(const auto all, verify(env, path));
    for (const Verified& each : all) {
      json.push_back({{"path", each.path}, {"valid", each.whole}, {"words", each.words}});
      answer.text +=
          (each.whole ? "whole    " : "damaged  ") + each.path + ": " + each.words + "\n";
      if (!each.whole) answer.code = exit_code(ErrorKind::kBadData);
    }
  }
  if (arguments.has("--json")) answer.text = json_lines(json);
  return answer;
}

}  // namespace lockstep::inspect
