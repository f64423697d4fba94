#include "checkpoint/search.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <thread>

#include "base/hash.h"
#include "base/signals_blocked.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/store.h"
#include "rundir/names.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMaxStateBytes = std::uint64_t{64} << 20;

const PartTarget* target_of(std::span<const PartTarget> parts, const std::string& file) {
  const auto found =
      std::ranges::find(parts, file, [](const PartTarget& part) { return part_file(part.name); });
  return found == parts.end() ? nullptr : &*found;
}

bool listed(const Manifest& manifest, const std::string& file) {
  return std::ranges::find(manifest.files, file, &FileEntry::name) != manifest.files.end();
}

// The parts of a checkpoint are exactly those asked for; else the first that differs.
std::optional<std::string> other_parts(const Manifest& manifest,
                                       std::span<const PartTarget> parts) {
  if (parts.empty()) return std::nullopt;
  for (const PartTarget& part : parts)
    if (!listed(manifest, part_file(part.name)))
      return "it has no part " + quote(part.name) + ", which is needed here";
  for (const FileEntry& file : manifest.files)
    if (file.name != kStateName && target_of(parts, file.name) == nullptr)
      return "it has a file " + quote(file.name) + " that nothing here takes";
  return std::nullopt;
}

// What differs in the tensors, for a better message; the headers' word is taken for it.
std::string first_difference(Env& env, const std::string& path, std::span<const PartTarget> parts) {
  for (const PartTarget& part : parts) {
    const auto file = env.open_read(path + "/" + part_file(part.name));
    if (!file.ok()) continue;
    const auto header = read_header(**file);
    if (!header.ok()) continue;
    if (const auto differs = difference(*header, part.tensors))
      return part_file(part.name) + ": " + *differs;
  }
  return "";
}

// Told by the manifest alone.
Verdict compare_run(Env& env, const std::string& path, const Manifest& manifest,
                    const Expectation& expected, std::span<const PartTarget> parts) {
  const auto foreign = [](const std::string& reason) { return Verdict{Trouble::kForeign, reason}; };
  if (!manifest.readable())
    return foreign("its format version is " + std::to_string(manifest.version) +
                   ", this program reads up to " + std::to_string(kFormatVersion));
  if (expected.virtual_workers && *expected.virtual_workers != manifest.virtual_workers)
    return foreign("it was made with " + std::to_string(manifest.virtual_workers) +
                   " virtual workers, this run has " + std::to_string(*expected.virtual_workers) +
                   "; use the same number, or --new-virtual-workers (again)");
  if (const auto other = other_parts(manifest, parts)) return foreign(*other);
  if (!expected.run_identity || *expected.run_identity == manifest.run_identity ||
      expected.other_identity == manifest.run_identity)
    return {};
  const std::string differs = first_difference(env, path, parts);
  if (!differs.empty()) return foreign("it is of another model: " + differs);
  return foreign("it is of another run: identity " + quote(manifest.run_identity) +
                 ", this run's is " + quote(*expected.run_identity));
}

Verdict read_state(Env& env, const std::string& path, const Manifest& manifest,
                   std::string& state) {
  const auto entry = std::ranges::find(manifest.files, kStateName, &FileEntry::name);
  if (entry == manifest.files.end()) return {Trouble::kDamaged, "it has no state.json"};
  auto text = env.read(path + "/" + kStateName, kMaxStateBytes);
  if (!text.ok()) return {Trouble::kDamaged, text.error().message};
  if (text->size() != entry->size || xxh3(std::as_bytes(std::span(*text))) != entry->xxh3)
    return {Trouble::kDamaged, "'" + path + "/state.json' does not have the hash in the manifest"};
  state = *std::move(text);
  return {};
}

// All files but state.json, side by side.
Verdict read_files(Env& env, const std::string& path, const Manifest& manifest,
                   std::span<const PartTarget> parts) {
  std::vector<Verdict> verdicts(manifest.files.size());
  {
    std::vector<std::jthread> readers;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
      const FileEntry& entry = manifest.files[i];
      if (entry.name == kStateName) continue;
      const auto read = [&, i] {
        const PartTarget* const part = target_of(parts, entry.name);
        verdicts[i] = examine_file(env, path + "/" + entry.name, entry,
                                   part == nullptr ? nullptr : &part->tensors);
      };
      try {
        const SignalsBlocked blocked;
        readers.emplace_back(read);
      } catch (const std::system_error&) {
        read();  // no thread is to be had
      }
    }
  }
  const auto worst = std::ranges::max_element(verdicts, {}, &Verdict::trouble);
  return worst == verdicts.end() ? Verdict{} : *worst;
}

Verdict examine(Env& env, const std::string& path, const Expectation& expected,
                std::span<const PartTarget> parts, Found& found) {
  auto manifest = read_manifest(env, path);
  if (!manifest.ok()) return {Trouble::kDamaged, manifest.error().message};
  Verdict verdict = compare_run(env, path, *manifest, expected, parts);
  if (verdict.trouble == Trouble::kNone) verdict = read_state(env, path, *manifest, found.state);
  if (verdict.trouble == Trouble::kNone) verdict = read_files(env, path, *manifest, parts);
  found.path = path;
  found.manifest = *std::move(manifest);
  return verdict;
}

Error refused(const std::string& path, const std::string& reason) {
  return {ErrorKind::kBadData, "checkpoint '" + path + "' cannot be used: " + reason};
}

}  // namespace

Result<Search> load_newest(Env& env, const std::string& run_dir, const Expectation& expected,
                           std::span<const PartTarget> parts) {
  Search search;
  LOCKSTEP_ASSIGN(const auto steps, list_steps(env, run_dir));
  for (const std::uint64_t step : steps) {
    const std::string path = checkpoints_dir(run_dir) + "/" + rundir::step_name(step);
    Found found;
    Verdict verdict = examine(env, path, expected, parts, found);
    if (verdict.trouble == Trouble::kForeign) return refused(path, verdict.reason);
    if (verdict.trouble == Trouble::kNone && found.manifest.cursor.txn != step)
      verdict = {Trouble::kDamaged,
                 "its manifest says step " + std::to_string(found.manifest.cursor.txn)};
    if (verdict.trouble == Trouble::kNone) {
      search.newest = std::move(found);
      return search;
    }
    search.skipped.push_back({path, verdict.reason});
  }
  return search;
}

Result<Search> find_newest(Env& env, const std::string& run_dir, const Expectation& expected) {
  return load_newest(env, run_dir, expected, {});
}

Result<Found> load_checkpoint_at(Env& env, const std::string& given, const Expectation& expected,
                                 std::span<const PartTarget> parts) {
  const std::string path = led_to(env, given);
  if (is_run_directory(env, path)) {
    LOCKSTEP_ASSIGN(const auto steps, list_steps(env, path));
    return refused(path, "it is a run's directory; give one of its checkpoints" +
                             (steps.empty() ? ", of which it has none"
                                            : ", the newest is '" + checkpoints_dir(path) + "/" +
                                                  rundir::step_name(steps.front()) + "'"));
  }
  if (!env.exists(path + "/" + kManifestName))
    return refused(path, env.exists(path) ? "it has no manifest.json; a checkpoint is a folder "
                                            "such as RUN_DIR/checkpoints/last"
                                          : "there is no such folder");
  Found found;
  const Verdict verdict = examine(env, path, expected, parts, found);
  if (verdict.trouble != Trouble::kNone) return refused(path, verdict.reason);
  return found;
}

Result<std::vector<TensorInfo>> read_infos(Env& env, const std::string& file) {
  LOCKSTEP_ASSIGN(const auto opened, env.open_read(file));
  LOCKSTEP_ASSIGN(Header header, read_header(*opened));
  std::ranges::sort(header.entries, {}, &Entry::place);
  std::vector<TensorInfo> infos;
  for (Entry& entry : header.entries) infos.push_back(std::move(entry.info));
  return infos;
}

Status read_tensors(Env& env, const std::string& file, std::span<const NamedTarget> tensors) {
  LOCKSTEP_ASSIGN(const auto opened, env.open_read(file));
  LOCKSTEP_ASSIGN(const Header header, read_header(*opened));
  std::set<std::string_view> names;
  for (const NamedTarget& target : tensors) names.insert(target.info.name);
  Header wanted = header;
  std::erase_if(wanted.entries,
                [&](const Entry& entry) { return !names.contains(entry.info.name); });
  if (const auto differs = difference(wanted, tensors))
    return Error{ErrorKind::kBadData, "'" + file + "': " + *differs};
  return read_data(*opened, header, tensors);
}

}  // namespace lockstep::checkpoint
