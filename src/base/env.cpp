#include "base/env.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/deadline.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Error disk_error(const char* call, const std::string& path, int code) {
  return {ErrorKind::kDisk, std::string(call) + " '" + path + "': " + std::strerror(code)};
}

// What is not there to be read is missing input, not trouble with the disk.
Error read_error(const char* call, const std::string& path, int code) {
  Error error = disk_error(call, path, code);
  if (code == ENOENT || code == ENOTDIR) error.kind = ErrorKind::kBadData;
  return error;
}

class PosixFile final : public File {
 public:
  PosixFile(UniqueFd fd, off_t size, std::string path)
      : fd_(std::move(fd)), size_(size), path_(std::move(path)) {}

  Status reserve(std::uint64_t bytes) override {
    const auto length = static_cast<off_t>(bytes);
    if (length == 0 || ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, size_, length) == 0) return {};
    if (errno == ENOSPC || errno == EDQUOT) return disk_error("reserve room for", path_, errno);
    return {};
  }

  Status append(std::span<const std::byte> data) override {
    const bool large = data.size() >= kPieceBytes;
    while (!data.empty()) {
      const ssize_t n = ::write(fd_.get(), data.data(), std::min(data.size(), kPieceBytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return disk_error("write", path_, n == 0 ? ENOSPC : errno);
      // Only starts write-back; sync() is what reports errors.
      if (large) ::sync_file_range(fd_.get(), size_, n, SYNC_FILE_RANGE_WRITE);
      size_ += n;
      data = data.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  Status sync() override {
    if (::fsync(fd_.get()) != 0) return disk_error("fsync", path_, errno);
    return {};
  }

  Status close() override {
    if (fd_ && ::close(fd_.release()) != 0) return disk_error("close", path_, errno);
    return {};
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

  UniqueFd fd_;
  off_t size_;
  std::string path_;
};

Status cut_short(const std::string& path, std::uint64_t wanted) {
  return Error{ErrorKind::kBadData,
               "'" + path + "' is cut short: it ends before byte " + std::to_string(wanted)};
}

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(UniqueFd fd, std::uint64_t size, std::string path)
      : fd_(std::move(fd)), size_(size), path_(std::move(path)) {}

  std::uint64_t size() const override { return size_; }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return read_error("read", path_, errno);
      if (n == 0) return cut_short(path_, offset + out.size());
      out = out.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    return {};
  }

 private:
  UniqueFd fd_;
  std::uint64_t size_;
  std::string path_;
};

// What Env::open_read gives where an Env has nothing better.
class FileInMemory final : public ReadableFile {
 public:
  FileInMemory(std::string content, std::string path)
      : content_(std::move(content)), path_(std::move(path)) {}

  std::uint64_t size() const override { return content_.size(); }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > content_.size() || out.size() > content_.size() - offset)
      return cut_short(path_, offset + out.size());
    if (!out.empty()) std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }

 private:
  std::string content_;
  std::string path_;
};

class PosixEnv final : public Env {
 public:
  std::uint64_t now_ns() override { return monotonic_ns(); }

  double wall_time_s() override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC);
  }

  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_APPEND);
  }

  Result<std::string> read(const std::string& path, std::uint64_t limit_bytes) override {
    LOCKSTEP_ASSIGN(const auto opened, open_regular(path));
    const auto& [fd, size] = opened;
    if (size > limit_bytes)
      return Error{ErrorKind::kBadData, "'" + path + "' has " + std::to_string(size) +
                                            " bytes, limit " + std::to_string(limit_bytes)};
    if (size == 0) return read_to_end(fd, path, limit_bytes);  // those of /proc and /sys say so
    return read_exactly(fd, path, static_cast<std::size_t>(size));
  }

  Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path) override {
    LOCKSTEP_ASSIGN(auto opened, open_regular(path));
    return std::unique_ptr<ReadableFile>(
        std::make_unique<PosixReadableFile>(std::move(opened.fd), opened.size, path));
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return disk_error("rename to", to, errno);
    return {};
  }

  Status remove_all(const std::string& path) override {
    std::error_code code;
    fs::remove_all(path, code);
    if (code) return disk_error("remove", path, code.value());
    return {};
  }

  Status make_dirs(const std::string& path) override {
    std::error_code code;
    if (path.empty() || fs::is_directory(path, code)) return {};
    // Of any other error (no permission, a loop, too long) nothing that is made above would help.
    if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory)
      return make_dirs_error(path, code.value());
    LOCKSTEP_TRY(make_dirs(fs::path(path).parent_path().string()));
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return make_dirs_error(path, errno);
    if (fs::is_directory(path, code)) return {};
    const fs::path target = fs::read_symlink(path, code);
    if (code) return make_dirs_error(path, ENOTDIR);
    return Error{ErrorKind::kDisk, "cannot make folder '" + path + "': it is a symbolic link to '" +
                                       target.string() + "', which is no folder"};
  }

  Status sync_dir(const std::string& path) override {
    const UniqueFd fd(
        ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return disk_error("sync of folder", path, errno);
    return {};
  }

  Status truncate(const std::string& path, std::uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0)
      return disk_error("truncate", path, errno);
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code code;
    std::vector<std::string> names;
    for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code))
      names.push_back(it->path().filename().string());
    if (code) return read_error("list", path, code.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }

  Result<FileId> file_id(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return read_error("stat", path, errno);
    return FileId{info.st_dev, info.st_ino};
  }

 private:
  static Error make_dirs_error(const std::string& path, int code) {
    return {ErrorKind::kDisk, "cannot make folder '" + path + "': " + std::strerror(code)};
  }

  static Result<std::unique_ptr<File>> open(const std::string& path, int flags) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
    if (!fd) return disk_error("open for writing", path, errno);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return read_error("stat", path, errno);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), info.st_size, path));
  }

  struct Opened {
    UniqueFd fd;
    std::uint64_t size;
  };

  static Result<Opened> open_regular(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd) return read_error("open", path, errno);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return read_error("stat", path, errno);
    if (!S_ISREG(info.st_mode))
      return Error{ErrorKind::kBadData,
                   "'" + path + "' is not a regular file; move it away or give another path"};
    return Opened{std::move(fd), static_cast<std::uint64_t>(info.st_size)};
  }

  static Result<std::string> read_to_end(const UniqueFd& fd, const std::string& path,
                                         std::uint64_t limit_bytes) {
    std::string content;
    while (true) {
      LOCKSTEP_ASSIGN(const std::string piece, read_exactly(fd, path, 4096));
      if (piece.empty()) return content;
      content += piece;
      if (content.size() > limit_bytes)
        return Error{ErrorKind::kBadData,
                     "'" + path + "' has more than " + std::to_string(limit_bytes) + " bytes"};
    }
  }
  static Result<std::string> read_exactly(const UniqueFd& fd, const std::string& path,
                                          std::size_t size) {
    std::string content(size, '\0');
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n = ::read(fd.get(), content.data() + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return read_error("read", path, errno);
      if (n == 0) break;  // cut short meanwhile: the caller's checks see it
      done += static_cast<std::size_t>(n);
    }
    content.resize(done);
    return content;
  }
};

}  // namespace

Result<std::unique_ptr<ReadableFile>> Env::open_read(const std::string& path) {
  LOCKSTEP_ASSIGN(auto content, read(path, std::numeric_limits<std::uint64_t>::max()));
  return std::unique_ptr<ReadableFile>(std::make_unique<FileInMemory>(std::move(content), path));
}

Result<FileId> Env::file_id(const std::string&) { return FileId{}; }

Env& posix_env() {
  static PosixEnv env;
  return env;
}

Status write_atomically(Env& env, const std::string& path, std::string_view content) {
  return write_atomically(
      env, path, [&](File& file) { return file.append(std::as_bytes(std::span(content))); });
}

Status write_atomically(Env& env, const std::string& path,
                        const std::function<Status(File&)>& write) {
  LOCKSTEP_ASSIGN(const fs::path target, place_to_write(path));
  const std::string folder = target.parent_path().string();
  const std::string temporary =
      (target.parent_path() / reserved_name(target.filename().string())).string();
  const auto publish = [&]() -> Status {
    LOCKSTEP_ASSIGN(auto file, env.create(temporary));
    LOCKSTEP_TRY(write(*file));
    LOCKSTEP_TRY(file->sync());
    LOCKSTEP_TRY(file->close());
    LOCKSTEP_TRY(env.rename(temporary, target.string()));
    return env.sync_dir(folder);
  };
  Status status = publish();
  // The first error is the cause; a failed clean-up adds nothing.
  if (!status.ok()) (void)env.remove_all(temporary).ok();
  return status;
}

}  // namespace lockstep
