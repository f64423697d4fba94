#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>

#include "base/cache_folder.h"
#include "base/log.h"
#include "base/processes.h"
#include "base/told_wait.h"
#include "base/unique_fd.h"
#include "data/digits.h"
#include "data/images.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = std::size_t{kDigitSide} * kDigitSide;

struct Part {
  ImageFiles files;
  std::uint64_t first;
  std::uint32_t count;
};

std::array<Part, 2> parts() {
  return {{{train_files(), 0, kTrainDigits}, {test_files(), kTrainDigits, kTestDigits}}};
}

std::string idx_header(std::initializer_list<std::uint32_t> sizes) {
  std::string out = {0, 0, static_cast<char>(IdxType::kUInt8), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 255);
  return out;
}

bool has_size(const std::string& path, std::uint64_t bytes) {
  std::error_code none;
  return fs::file_size(path, none) == bytes && !none;
}

bool complete(const std::string& folder) {
  for (const Part& part : parts())
    if (!has_size(folder + "/" + part.files.images, 16 + part.count * kPixels) ||
        !has_size(folder + "/" + part.files.labels, 8 + part.count))
      return false;
  return true;
}

Status write(Env& env, const std::string& path, const std::string& content) {
  LOCKSTEP_ASSIGN(const auto file, env.create(path));
  LOCKSTEP_TRY(file->append(std::as_bytes(std::span(content))));
  LOCKSTEP_TRY(file->sync());
  return file->close();
}

Status write_part(Env& env, const std::string& folder, const Part& part) {
  std::string images = idx_header({part.count, kDigitSide, kDigitSide});
  std::string labels = idx_header({part.count});
  images.reserve(images.size() + part.count * kPixels);
  for (std::uint32_t i = 0; i < part.count; ++i) {
    const Digit digit = draw_digit(part.first + i);
    images.append(reinterpret_cast<const char*>(digit.pixels.data()), digit.pixels.size());
    labels += static_cast<char>(digit.label);
  }
  LOCKSTEP_TRY(write(env, folder + "/" + part.files.images, images));
  return write(env, folder + "/" + part.files.labels, labels);
}

// Writes beside, then renames file by file: readers see each file whole or not at all.
Status draw_into(Env& env, const std::string& folder, const std::string& staging) {
  LOCKSTEP_TRY(env.make_dirs(staging));
  for (const Part& part : parts()) LOCKSTEP_TRY(write_part(env, staging, part));
  for (const Part& part : parts())
    for (const std::string& name : {part.files.images, part.files.labels})
      LOCKSTEP_TRY(env.rename(staging + "/" + name, folder + "/" + name));
  LOCKSTEP_TRY(env.sync_dir(folder));
  return env.remove_all(staging);
}

// Held while drawing, so that of several processes one draws and the others wait. Not every file
// system can lock a folder; without a lock all draw, each beside the others, and the same bytes.
struct Turn {
  UniqueFd lock;
  bool locked = false;
};

Turn take_turn(const std::string& folder) {
  ToldWait wait([&] {
    return "another process" + lock_holder(folder) + " that draws digits into '" + folder + "'";
  });
  Turn turn{UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
  while (turn.lock && ::flock(turn.lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return turn;
    wait.pause();
  }
  turn.locked = static_cast<bool>(turn.lock);
  return turn;
}

// What killed writers left. Only under the lock: without it they may be alive.
Status clean(Env& env, const std::string& folder) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> names, env.list(folder));
  for (const std::string& name : names)
    if (name.starts_with(kReservedPrefix)) LOCKSTEP_TRY(env.remove_all(folder + "/" + name));
  return {};
}

}  // namespace

Result<std::string> default_digits_folder() {
  std::string why;
  for (const std::string& cache : cache_folders()) {
    const std::string folder = cache + "/lockstep/digits-v1";
    if (complete(folder)) return folder;  // it need not be written
    const Status made = posix_env().make_dirs(folder);
    if (made.ok() && ::access(folder.c_str(), W_OK) == 0) return folder;
    why += (why.empty() ? " (" : "; ") +
           (made.ok() ? "'" + folder + "' cannot be written" : made.error().message);
  }
  return Error{ErrorKind::kUsage,
               "synthetic digits: no folder to keep them in" + why + (why.empty() ? "" : ")") +
                   "; set XDG_CACHE_HOME (or HOME) to a folder that can be written"};
}

Status ensure_digits(Env& env, const std::string& folder) {
  if (complete(folder)) return {};
  LOCKSTEP_TRY(env.make_dirs(folder));
  const Turn turn = take_turn(folder);
  if (turn.locked) LOCKSTEP_TRY(clean(env, folder));
  if (complete(folder)) return {};
  log_info("drawing " + std::to_string(kTrainDigits + kTestDigits) +
           " synthetic digits, once, into " + folder);
  const std::string staging = folder + "/" + std::string(kReservedPrefix) +
                              std::to_string(::getpid()) + "-" + std::to_string(env.now_ns());
  Status status = draw_into(env, folder, staging);
  // The first error is the cause; a failed clean-up adds nothing.
  if (!status.ok())
    if (auto removed = env.remove_all(staging); !removed.ok()) return status;
  return status;
}

}  // namespace lockstep::data
