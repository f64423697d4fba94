#include "data/download.h"

#include <memory>
#include <utility>

#include "base/hash.h"
#include "data/archive/extract.h"
#include "data/archive/source.h"
#include "data/fetch.h"
#include "data/folder_lock.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;

// Gives `take` what is left of it.
Status drain(const Source& source, const FetchSink& take) {
  std::vector<std::byte> piece(kReadBytes);
  for (;;) {
    LOCKSTEP_ASSIGN(const std::size_t bytes, source(piece));
    if (bytes == 0) return {};
    LOCKSTEP_TRY(take(std::span<const std::byte>(piece).first(bytes)));
  }
}

// Of the kind that `like` is.
Result<std::string> digest_of(Env& env, const std::string& path, const std::string& like,
                              const Stopped& stopped) {
  LOCKSTEP_ASSIGN(std::shared_ptr<ReadableFile> file, env.open_read(path));
  Digest digest(like.size() == 32 ? Digest::Kind::kMd5 : Digest::Kind::kSha256);
  const Source source = stoppable(plain_source(std::move(file)), stopped);
  LOCKSTEP_TRY(drain(source, [&](std::span<const std::byte> piece) {
    digest.update(piece);
    return Status();
  }));
  std::string hex = digest.hex();
  if (hex.empty())
    return Error{ErrorKind::kUnavailable,
                 "cannot check '" + path + "': this machine's OpenSSL has MD5 switched off"};
  return hex;
}

class Download {
 public:
  Download(Env& env, const RemoteSet& set, const std::string& folder, const Progress& progress,
           const Stopped& stopped)
      : env_(env),
        set_(set),
        folder_(folder.ends_with('/') ? folder : folder + "/"),
        progress_(progress),
        stopped_(stopped) {}

  Status get(const RemoteFile& file) const {
    const std::string under_way = folder_ + std::string(kReservedPrefix);
    const std::string work = under_way + "unpacked-" + file.name;
    // By one that was killed.
    for (const std::string& left : {work, under_way + file.name})
      LOCKSTEP_TRY(env_.remove_all(left));
    LOCKSTEP_ASSIGN(const std::string bad, first_bad(file, folder_));
    if (bad.empty()) return {};
    LOCKSTEP_ASSIGN(const bool packed_good, is_good(folder_ + file.name, file.sha256));
    if (!packed_good) LOCKSTEP_TRY(fetch_any(file));
    Status status = unpack(file, work);
    if (const Status removed = env_.remove_all(work); status.ok()) status = removed;
    return status;
  }

 private:
  Result<bool> is_good(const std::string& path, const std::string& digest) const {
    if (!env_.exists(path)) return false;
    const auto found = digest_of(env_, path, digest, stopped_);
    // No file: to be fetched again. What cannot be read because of the disk is told.
    if (!found.ok() && found.error().kind == ErrorKind::kBadData) return false;
    if (!found.ok()) return found.error();
    return *found == digest;
  }

  // The path of the first that is missing or damaged; empty: all are good.
  Result<std::string> first_bad(const RemoteFile& file, const std::string& below) const {
    for (const UnpackedFile& each : file.unpacked) {
      LOCKSTEP_ASSIGN(const bool good, is_good(below + each.path, each.digest));
      if (!good) return each.path;
    }
    return std::string();
  }

  // From the first address that has it. The error lists what each said.
  Status fetch_any(const RemoteFile& file) const {
    Error all{ErrorKind::kUnavailable, "cannot get " + file.name + ":"};
    for (const std::string& address : set_.addresses) {
      Status got = fetch_from(address + file.name, file);
      if (got.ok() || got.error().kind == ErrorKind::kDisk || (stopped_ && stopped_())) return got;
      all.message += "\n  " + got.error().message;
      if (got.error().kind == ErrorKind::kBadData) all.kind = ErrorKind::kBadData;
    }
    all.message +=
        "\ncheck the network, or fetch the file by hand and put it into '" + folder_ + "'";
    return all;
  }

  Status fetch_from(const std::string& url, const RemoteFile& file) const {
    std::uint64_t bytes = 0;
    LOCKSTEP_TRY(write_atomically(env_, folder_ + file.name,
                                  [&](File& to) { return receive(url, file, to, bytes); }));
    if (progress_) progress_(file.name, bytes, bytes);
    return {};
  }

  Status receive(const std::string& url, const RemoteFile& file, File& to,
                 std::uint64_t& bytes) const {
    Sha256 hash;
    const auto take = [&](std::span<const std::byte> piece) {
      hash.update(piece);
      bytes += piece.size();
      return to.append(piece);
    };
    const auto report = [&](std::uint64_t done, std::uint64_t total) {
      if (progress_ && done != total) progress_(file.name, done, total);
    };
    LOCKSTEP_TRY(fetch(url, file.max_bytes, take, report, stopped_));
    const std::string found = hash.hex();
    if (found == file.sha256) return {};
    return Error{ErrorKind::kBadData, "'" + url + "' sent " + std::to_string(bytes) +
                                          " bytes with sha256 " + found + ", expected " +
                                          file.sha256};
  }

  // Into `work`, and what was asked for from there into its place, once all of it is good.
  Status unpack(const RemoteFile& file, const std::string& work) const {
    const std::string packed = folder_ + file.name;
    LOCKSTEP_TRY(env_.make_dirs(work));
    if (file.name.ends_with(".tar.gz"))
      LOCKSTEP_TRY(extract(env_, packed, work, Durable::kOnReturn, stopped_));
    else
      LOCKSTEP_TRY(gunzip_to(packed, work + "/" + file.unpacked.front().path));
    LOCKSTEP_ASSIGN(const std::string bad, first_bad(file, work + "/"));
    if (!bad.empty())
      return Error{ErrorKind::kBadData, "'" + packed + "' is the file expected, but '" + bad +
                                            "' that is unpacked from it is not: please report it"};
    const std::string& first = file.unpacked.front().path;
    const std::string top = first.substr(0, first.find('/'));
    LOCKSTEP_TRY(publish(work + "/" + top, folder_ + top));
    return env_.sync_dir(folder_);
  }

  Status gunzip_to(const std::string& packed, const std::string& plain) const {
    LOCKSTEP_ASSIGN(Source packed_source, open_source(env_, packed));
    const Source source = stoppable(std::move(packed_source), stopped_);
    return write_atomically(env_, plain, [&](File& to) {
      return drain(source, [&](std::span<const std::byte> piece) { return to.append(piece); });
    });
  }

  // By one rename. A folder that is there already keeps what else it holds: its files are renamed,
  // one by one.
  Status publish(const std::string& from, const std::string& to) const {
    const auto names = env_.list(from);
    LOCKSTEP_TRY(names.ok() ? env_.sync_dir(from) : Status());
    if (!names.ok() || !env_.exists(to)) return env_.rename(from, to);
    for (const std::string& name : *names)
      LOCKSTEP_TRY(publish(from + "/" + name, to + "/" + name));
    return env_.sync_dir(to);
  }

  Env& env_;
  const RemoteSet& set_;
  const std::string folder_;  // ends with /
  const Progress& progress_;
  const Stopped& stopped_;
};

}  // namespace

Status download(Env& env, const RemoteSet& set, const std::string& folder, const Progress& progress,
                const Stopped& stopped) {
  LOCKSTEP_TRY(env.make_dirs(folder));
  const Download into(env, set, folder, progress, stopped);
  for (const RemoteFile& file : set.files) LOCKSTEP_TRY(into.get(file));
  return {};
}

Status download_below(const std::string& root, const RemoteSet& set, const Progress& progress,
                      const Stopped& stopped) {
  LOCKSTEP_ASSIGN(const std::string there, absolute_path(root));
  const std::string folder = set.folder.empty() ? there : there + "/" + set.folder;
  LOCKSTEP_TRY(posix_env().make_dirs(folder));
  LOCKSTEP_ASSIGN(const UniqueFd lock, lock_folder(folder, "download or copy"));
  return download(posix_env(), set, folder, progress, stopped);
}

}  // namespace lockstep::data
