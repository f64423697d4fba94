#include "data/download.h"

#include <span>
#include <utility>

#include "base/hash.h"
#include "data/fetch.h"
#include "data/gzip.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMega = 1 << 20;

Result<bool> is_good(Env& env, const std::string& path, std::uint64_t limit,
                     const std::string& sha256, std::string* content = nullptr) {
  if (!env.exists(path)) return false;
  auto read = env.read(path, limit);
  // Not a file of that size: to be fetched again. What cannot be read because of the disk is told.
  if (!read.ok() && read.error().kind == ErrorKind::kBadData) return false;
  if (!read.ok()) return read.error();
  const bool good = sha256_hex(*read) == sha256;
  if (good && content != nullptr) *content = *std::move(read);
  return good;
}

Result<std::string> fetch_checked(const std::string& url, const RemoteFile& file,
                                  const Progress& progress) {
  const std::string name = file.name + ".gz";
  const auto report = [&](std::uint64_t done, std::uint64_t total) {
    if (progress && done != total) progress(name, done, total);
  };
  LOCKSTEP_ASSIGN(std::string content, fetch(url, file.max_packed_bytes, report));
  if (const std::string found = sha256_hex(content); found != file.packed_sha256)
    return Error{ErrorKind::kBadData, "'" + url + "' sent " + std::to_string(content.size()) +
                                          " bytes with sha256 " + found + ", expected " +
                                          file.packed_sha256};
  if (progress) progress(name, content.size(), content.size());
  return content;
}

// From the first address that has it. The error lists what each said.
Result<std::string> fetch_any(const RemoteSet& set, const RemoteFile& file,
                              const Progress& progress) {
  Error all{ErrorKind::kUnavailable, "cannot get " + file.name + ".gz:"};
  for (const std::string& address : set.addresses) {
    auto content = fetch_checked(address + file.name + ".gz", file, progress);
    if (content.ok()) return content;
    all.message += "\n  " + content.error().message;
    if (content.error().kind == ErrorKind::kBadData) all.kind = ErrorKind::kBadData;
  }
  all.message += "\ncheck the network, or fetch the file by hand and put it into the folder";
  return all;
}

Status get_file(Env& env, const RemoteSet& set, const RemoteFile& file, const std::string& folder,
                const Progress& progress) {
  const std::string plain = folder + "/" + file.name, packed = plain + ".gz";
  LOCKSTEP_ASSIGN(const bool plain_good,
                  is_good(env, plain, file.unpacked_bytes, file.unpacked_sha256));
  if (plain_good) return {};
  std::string content;
  LOCKSTEP_ASSIGN(const bool packed_good,
                  is_good(env, packed, file.max_packed_bytes, file.packed_sha256, &content));
  if (!packed_good) {
    LOCKSTEP_ASSIGN(content, fetch_any(set, file, progress));
    LOCKSTEP_TRY(write_atomically(env, packed, content));
  }
  LOCKSTEP_ASSIGN(const std::string unpacked, gunzip(content, packed, file.unpacked_bytes));
  if (const std::string found = sha256_hex(unpacked); found != file.unpacked_sha256)
    return Error{ErrorKind::kBadData, "'" + packed + "' unpacks to sha256 " + found +
                                          ", expected " + file.unpacked_sha256 +
                                          "; remove it and try again"};
  return write_atomically(env, plain, unpacked);
}

}  // namespace

// Checksums as torchvision's mirrors have them since 2020; those of the unpacked files are the
// original set's.
RemoteSet mnist_online() {
  return {
      {"https://ossci-datasets.s3.amazonaws.com/mnist/",
       "https://storage.googleapis.com/cvdf-datasets/mnist/"},
      {{"train-images-idx3-ubyte",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 16 * kMega, 47040016},
       {"train-labels-idx1-ubyte",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", kMega, 60008},
       {"t10k-images-idx3-ubyte",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 4 * kMega, 7840016},
       {"t10k-labels-idx1-ubyte",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", kMega, 10008}}};
}

Status download(Env& env, const RemoteSet& set, const std::string& folder,
                const Progress& progress) {
  LOCKSTEP_TRY(env.make_dirs(folder));
  for (const RemoteFile& file : set.files) LOCKSTEP_TRY(get_file(env, set, file, folder, progress));
  return {};
}

Status download_mnist(const std::string& folder, const Progress& progress) {
  return download(posix_env(), mnist_online(), folder + "/MNIST/raw", progress);
}

}  // namespace lockstep::data
