// The checkpoints of a run directory: names, publication, retention (search.h finds and loads). One
// writer at a time; readers any time.
//
//   RUN_DIR/checkpoints/step-00000100/   published: complete and synced before it got this name
//   RUN_DIR/checkpoints/.tmp-lockstep-*  reserved: being written or removed; remove_unpublished()
//                                        clears them at start
//   RUN_DIR/checkpoints/last, best       a name of one, for people; the search does not rely on it
//
// A checkpoint appears by one rename and disappears by one rename, so no moment has half of one.
// Damaged (a hash, size or file is wrong): the search goes on to the next older. Foreign (whole,
// but of another run, V, model or format version): an error, since going on from an older one would
// silently lose work. Errors: kDisk, kBadData. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {

std::string checkpoints_dir(const std::string& run_dir);
std::string part_file(const std::string& part);  // "model.safetensors"

// It has a folder for checkpoints, or is to have one: a run begins without.
bool is_run_directory(Env& env, const std::string& path);

// A file of a checkpoint, ready in memory.
struct FileBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

// Called when all is written and synced, right before publication; may block (with a deadline); an
// error cancels.
using Gate = std::function<Status(const RunCursor&)>;

// `files` are written, hashed and listed in `manifest` (whose own `files` is ignored); `meanwhile`
// runs on another thread and gives weights_sha256. The same checkpoint already there and whole:
// left as it is. On an error nothing new is there, or, if only the last sync failed, all of it.
// Returns the path.
Result<std::string> publish(Env& env, const std::string& run_dir, Manifest manifest,
                            std::span<const FileBytes> files,
                            const std::function<std::string()>& meanwhile, const Gate& gate);

// After publishing `txn`: keeps it and the keep_last - 1 newest older ones with a valid manifest,
// and what `best` names; removes all other older ones, and all of another number of virtual
// workers, whose numbers mean other places of the run. Other newer ones (damaged leavings that a
// resume skipped) are not its business.
Status retain(Env& env, const std::string& run_dir, std::uint64_t txn, unsigned keep_last);

// Removes all newer than `txn`, and a `best` that names one of them: of a way that is not taken,
// once a run goes back to `txn`.
Status withdraw_after(Env& env, const std::string& run_dir, std::uint64_t txn);

// Atomic; NAME is "last" or "best".
Status set_pointer(Env& env, const std::string& run_dir, const std::string& name,
                   std::uint64_t txn);

// The checkpoint that a pointer's file names; any other path as it is.
std::string led_to(Env& env, const std::string& path);

// What a process that died was writing or removing. Only while no other writes.
Status remove_unpublished(Env& env, const std::string& run_dir);

// The `folder` is a checkpoint's.
Result<Manifest> read_manifest(Env& env, const std::string& folder);

// Numbers of the published, newest first.
Result<std::vector<std::uint64_t>> list_steps(Env& env, const std::string& run_dir);

}  // namespace lockstep::checkpoint
