#include "checkpoint/store.h"

#include <algorithm>
#include <future>
#include <memory>

#include "base/hash.h"
#include "base/signals_blocked.h"
#include "checkpoint/file_reader.h"
#include "rundir/manifest.h"
#include "rundir/names.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{8} << 20;

// Writing, before the data is known to be on storage.
struct OpenFile {
  std::unique_ptr<File> file;
  FileEntry entry;
};

Result<OpenFile> open_file(Env& env, const std::string& folder, const FileBytes& source) {
  OpenFile open;
  LOCKSTEP_ASSIGN(open.file, env.create(folder + "/" + source.name));
  LOCKSTEP_TRY(open.file->reserve(source.bytes.size()));
  open.entry = {source.name, source.bytes.size(), 0};
  return open;
}

// Hashes piece by piece, so that the disk works on one while the next is hashed.
Status fill_file(OpenFile& open, std::span<const std::byte> bytes) {
  Xxh3 hash;
  for (std::size_t at = 0; at < bytes.size(); at += kWriteBytes) {
    const auto piece = bytes.subspan(at, std::min(kWriteBytes, bytes.size() - at));
    hash.update(piece);
    LOCKSTEP_TRY(open.file->append(piece));
  }
  open.entry.xxh3 = hash.value();
  return {};
}

Status finish_file(File& file) {
  LOCKSTEP_TRY(file.sync());
  return file.close();
}

Status write_files(Env& env, const std::string& folder, Manifest& manifest,
                   std::span<const FileBytes> files,
                   const std::function<std::string()>& meanwhile) {
  // Beside the disk, or, where no thread can be had, when it is asked for.
  std::future<std::string> weights;
  if (meanwhile) {
    const SignalsBlocked blocked;
    weights = std::async(std::launch::async | std::launch::deferred, meanwhile);
  }
  std::vector<OpenFile> open;
  for (const FileBytes& source : files) {
    LOCKSTEP_ASSIGN(OpenFile opened, open_file(env, folder, source));
    open.push_back(std::move(opened));
  }
  for (std::size_t i = 0; i < files.size(); ++i) LOCKSTEP_TRY(fill_file(open[i], files[i].bytes));
  manifest.files.clear();
  for (OpenFile& file : open) {
    LOCKSTEP_TRY(finish_file(*file.file));
    manifest.files.push_back(std::move(file.entry));
  }
  std::ranges::sort(manifest.files, {}, &FileEntry::name);
  if (weights.valid()) manifest.weights_sha256 = weights.get();
  const std::string text = to_json(manifest);
  const FileBytes last{kManifestName, std::as_bytes(std::span(text))};
  LOCKSTEP_ASSIGN(OpenFile written, open_file(env, folder, last));
  LOCKSTEP_TRY(fill_file(written, last.bytes));
  LOCKSTEP_TRY(finish_file(*written.file));
  return env.sync_dir(folder);
}

// The same step of the same run gives the same files; a second writer of it need not replace what
// is good.
bool already_there(Env& env, const std::string& folder, const Manifest& wanted) {
  const auto there = read_manifest(env, folder);
  if (!there.ok() || there->run_identity != wanted.run_identity ||
      there->virtual_workers != wanted.virtual_workers || there->cursor != wanted.cursor ||
      there->files != wanted.files)
    return false;
  return std::ranges::all_of(there->files, [&](const FileEntry& entry) {
    return examine_file(env, folder + "/" + entry.name, entry, nullptr).trouble == Trouble::kNone;
  });
}

// Unpublished by one rename, synced before anything in it goes.
Status withdraw(Env& env, const std::string& folder, const std::string& name) {
  const std::string grave = folder + "/" + std::string(kReservedPrefix) + "old-" + name;
  LOCKSTEP_TRY(env.remove_all(grave));
  LOCKSTEP_TRY(env.rename(folder + "/" + name, grave));
  LOCKSTEP_TRY(env.sync_dir(folder));
  return env.remove_all(grave);
}

Status make_folder(Env& env, const std::string& run_dir) {
  // Synced even when it is there: an earlier start may have made it and died.
  LOCKSTEP_TRY(env.make_dirs(checkpoints_dir(run_dir)));
  return env.sync_dir(run_dir);
}

Status write_and_rename(Env& env, const std::string& folder, const std::string& temporary,
                        Manifest& manifest, std::span<const FileBytes> files,
                        const std::function<std::string()>& meanwhile, const Gate& gate) {
  const std::string name = rundir::step_name(manifest.cursor.txn);
  const std::string path = folder + "/" + name;
  LOCKSTEP_TRY(env.remove_all(temporary));
  LOCKSTEP_TRY(env.make_dirs(temporary));
  LOCKSTEP_TRY(write_files(env, temporary, manifest, files, meanwhile));
  if (gate) LOCKSTEP_TRY(gate(manifest.cursor));
  if (env.exists(path)) {
    if (already_there(env, path, manifest)) {
      return env.remove_all(temporary);
    }
    LOCKSTEP_TRY(withdraw(env, folder, name));
  }
  return env.rename(temporary, path);
}

std::optional<std::uint64_t> pointed_at(Env& env, const std::string& folder, const char* name) {
  const auto text = env.read(folder + "/" + name, 64);
  if (!text.ok()) return std::nullopt;
  return rundir::step_of(text->substr(0, text->find('\n')));
}

// For good: nothing is to point to it.
Status forget(Env& env, const std::string& folder, std::uint64_t step) {
  if (pointed_at(env, folder, "best") == step) LOCKSTEP_TRY(env.remove_all(folder + "/best"));
  return withdraw(env, folder, rundir::step_name(step));
}

}  // namespace

Result<Manifest> read_manifest(Env& env, const std::string& folder) {
  LOCKSTEP_ASSIGN(const std::string text,
                  env.read(folder + "/" + kManifestName, kMaxManifestBytes));
  return parse_manifest(text);
}

std::string checkpoints_dir(const std::string& run_dir) { return run_dir + "/checkpoints"; }
std::string part_file(const std::string& part) { return part + ".safetensors"; }

bool is_run_directory(Env& env, const std::string& path) {
  return env.exists(checkpoints_dir(path)) || rundir::is_run(env, path);
}

Result<std::string> publish(Env& env, const std::string& run_dir, Manifest manifest,
                            std::span<const FileBytes> files,
                            const std::function<std::string()>& meanwhile, const Gate& gate) {
  const std::string folder = checkpoints_dir(run_dir);
  const std::string name = rundir::step_name(manifest.cursor.txn);
  const std::string temporary = folder + "/" + std::string(kReservedPrefix) + name;
  LOCKSTEP_TRY(make_folder(env, run_dir));
  Status status = write_and_rename(env, folder, temporary, manifest, files, meanwhile, gate);
  if (status.ok()) {
    // Where only this fails, the checkpoint is there and whole: it is not taken back.
    LOCKSTEP_TRY(env.sync_dir(folder));
    return folder + "/" + name;
  }
  // The first error is the cause; what cannot be removed now has a reserved name and goes at the
  // next start.
  if (const Status removed = env.remove_all(temporary); !removed.ok()) return status.error();
  return std::move(status).error();
}

Status retain(Env& env, const std::string& run_dir, std::uint64_t txn, unsigned keep_last) {
  const std::string folder = checkpoints_dir(run_dir);
  const auto best = pointed_at(env, folder, "best");
  LOCKSTEP_ASSIGN(const auto steps, list_steps(env, run_dir));
  unsigned kept = 1;
  for (const std::uint64_t step : steps) {
    if (step >= txn) continue;
    if (kept < keep_last) {
      if (read_manifest(env, folder + "/" + rundir::step_name(step)).ok()) ++kept;
    } else if (best != step) {
      LOCKSTEP_TRY(forget(env, folder, step));
    }
  }
  return {};
}

Status withdraw_after(Env& env, const std::string& run_dir, std::uint64_t txn) {
  LOCKSTEP_ASSIGN(const auto steps, list_steps(env, run_dir));
  for (const std::uint64_t step : steps)
    if (step > txn) LOCKSTEP_TRY(forget(env, checkpoints_dir(run_dir), step));
  return {};
}

Status set_pointer(Env& env, const std::string& run_dir, const std::string& name,
                   std::uint64_t txn) {
  return write_atomically(env, checkpoints_dir(run_dir) + "/" + name,
                          rundir::step_name(txn) + "\n");
}

std::string led_to(Env& env, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  for (const char* pointer : {"last", "best"})
    if (path == pointer || path.ends_with(std::string("/") + pointer))
      if (const auto step = pointed_at(env, folder, pointer))
        return folder + "/" + rundir::step_name(*step);
  return path;
}

Status remove_unpublished(Env& env, const std::string& run_dir) {
  const std::string folder = checkpoints_dir(run_dir);
  if (!env.exists(folder)) return {};
  LOCKSTEP_ASSIGN(const auto names, env.list(folder));
  for (const std::string& name : names)
    if (name.starts_with(kReservedPrefix)) LOCKSTEP_TRY(env.remove_all(folder + "/" + name));
  return {};
}

Result<std::vector<std::uint64_t>> list_steps(Env& env, const std::string& run_dir) {
  std::vector<std::uint64_t> steps;
  const std::string folder = checkpoints_dir(run_dir);
  if (!env.exists(folder)) return steps;
  LOCKSTEP_ASSIGN(const auto names, env.list(folder));
  for (const std::string& name : names)
    if (const auto step = rundir::step_of(name)) steps.push_back(*step);
  std::ranges::sort(steps, std::greater<>());
  return steps;
}

}  // namespace lockstep::checkpoint
