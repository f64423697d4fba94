// The seam to the outside world: clock and files. Passed in, never reached for, so that a test owns
// time and disk. PosixEnv is the real one; tests/support/checkpoint_fault_env.h fails the
// n-th call and forgets unsynced data.
//
// Ownership: callers own buffers and paths; File closes itself. Errors: kDisk with path, call,
// errno text, kBadData for a missing file. Threads: an Env may be used from many threads, a File
// from one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep {

class File {
 public:
  virtual ~File() = default;
  // Room for `bytes` more; kDisk at once where there is none, before anything is written that would
  // take the last of it from others. Does nothing on a file system that cannot reserve.
  virtual Status reserve(std::uint64_t /*bytes*/) { return {}; }
  // Large appends are on their way to storage before sync(), so that sync() waits for little.
  virtual Status append(std::span<const std::byte> data) = 0;
  // Data and size are on storage; after an error the file's content is unknown.
  virtual Status sync() = 0;
  virtual Status close() = 0;  // idempotent; reports what write-back reports
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;  // bytes, when it was opened
  // Fills `out` from `offset` on; kBadData when the file ends before. From any number of threads.
  virtual Status read_at(std::uint64_t offset, std::span<std::byte> out) = 0;
};

// On this machine, as long as it is open or has a name.
struct FileId {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

class Env {
 public:
  virtual ~Env() = default;

  virtual std::uint64_t now_ns() = 0;  // monotonic, nanoseconds
  virtual double wall_time_s() = 0;    // seconds since 1970, for people and logs only

  // New or truncated; who may read it is the umask's business.
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<File>> open_append(const std::string& path) = 0;
  // The whole file; a larger one is kBadData.
  virtual Result<std::string> read(const std::string& path, std::uint64_t limit_bytes) = 0;
  // For files read in place, without a copy of the whole. The default reads it all with read().
  virtual Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path);
  // Atomic on one file system.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove_all(const std::string& path) = 0;  // absent is fine
  virtual Status make_dirs(const std::string& path) = 0;   // mode 0777 less the umask
  virtual Status sync_dir(const std::string& path) = 0;
  virtual Status truncate(const std::string& path, std::uint64_t bytes) = 0;
  // Names, sorted, no . and ..
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Which file or folder it is, whatever its name. The default knows paths only.
  virtual Result<FileId> file_id(const std::string& path);
};

// Lives as long as the process.
Env& posix_env();

// What names of ours that no one else may use begin with: sockets, files that are being written.
inline constexpr std::string_view kReservedPrefix = ".tmp-lockstep-";

// kUsage for an address ("s3://bucket/x"), which would be taken for a folder named "s3:"; with "./"
// in front it is one.
Status check_local(const std::string& path);

// From the root, without dots. kUsage for an empty one and for an address, kDisk where there is no
// working directory.
Result<std::string> absolute_path(const std::string& path);

// What a new file of that name takes the place of: what symbolic links lead to, there or not. As
// given where there is no link. kUsage for an address, and where a device, pipe or socket is, which
// would be gone then, or links lead in a circle.
Result<std::string> place_to_write(const std::string& path);

// The reserved name under which `name` is written, or unpacked, before it has its own: no longer
// than a short name, so that all that the file system takes can be written.
std::string reserved_name(const std::string& name);

// Whether a file of that name can be written, folders on the way being made: nothing is, and what
// is there stays as it is. kUsage: it is a folder, a name in it is too long, place_to_write()
// refuses it, or the nearest folder that is there cannot be written to.
Status check_can_make_file(const std::string& path);

// Temporary sibling (a reserved name), write, sync, rename, sync of the folder, at
// place_to_write(): a symbolic link stays.
Status write_atomically(Env& env, const std::string& path, std::string_view content);
// The same for content that comes in pieces; an error of `write` leaves nothing behind.
Status write_atomically(Env& env, const std::string& path,
                        const std::function<Status(File&)>& write);

}  // namespace lockstep
