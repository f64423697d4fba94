#include "data/archive/extract.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "data/archive/source.h"
#include "data/archive/tar.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Whether the archive has had a file by that name, or by that of a folder above.
bool is_in_a_file(const fs::path& root, const fs::path& folder) {
  fs::path at = root;
  std::error_code code;
  return std::ranges::any_of(folder, [&](const fs::path& name) {
    at /= name;
    return fs::is_regular_file(at, code);
  });
}

Error file_and_folder(const std::string& path) {
  return {ErrorKind::kBadData,
          "the entry '" + path + "' is in the archive as a file and as a folder"};
}

class ToDisk final : public TarSink {
 public:
  ToDisk(Env& env, std::string root, Durable durable)
      : env_(env), root_(std::move(root)), durable_(durable) {}
  Status folder(const std::string& path) override {
    LOCKSTEP_TRY(close());
    if (is_in_a_file(root_, path)) return file_and_folder(path);
    return env_.make_dirs(root_ + "/" + path);
  }
  Status file(const std::string& path, std::uint64_t size) override {
    LOCKSTEP_TRY(make_way(path));
    LOCKSTEP_ASSIGN(file_, env_.create(root_ + "/" + path));
    return file_->reserve(size);
  }
  Status link(const std::string& path, const std::string& target) override {
    LOCKSTEP_TRY(close());
    std::error_code code;
    if (!fs::is_regular_file(root_ + "/" + target, code))
      return Error{ErrorKind::kBadData, "the entry '" + path + "' is a link to '" + target +
                                            "', which is no file before it in the archive"};
    LOCKSTEP_TRY(make_way(path));
    fs::create_hard_link(root_ + "/" + target, root_ + "/" + path, code);
    return code ? copy(target, path) : Status();  // a file system without hard links
  }
  Status content(std::span<const std::byte> piece) override { return file_->append(piece); }
  Status close() {
    const auto file = std::exchange(file_, nullptr);
    if (file == nullptr) return {};
    if (durable_ == Durable::kOnReturn) LOCKSTEP_TRY(file->sync());
    return file->close();
  }

 private:
  // For an entry of that name: its folder, and nothing in its place. One of the same name goes, and
  // another link to its content stays.
  Status make_way(const std::string& path) {
    LOCKSTEP_TRY(close());
    const std::size_t slash = path.rfind('/');
    if (slash != std::string::npos) LOCKSTEP_TRY(folder(path.substr(0, slash)));
    std::error_code code;
    if (fs::is_directory(root_ + "/" + path, code)) return file_and_folder(path);
    return env_.exists(root_ + "/" + path) ? env_.remove_all(root_ + "/" + path) : Status();
  }

  Status copy(const std::string& from, const std::string& to) {
    LOCKSTEP_ASSIGN(const auto in, env_.open_read(root_ + "/" + from));
    LOCKSTEP_ASSIGN(file_, env_.create(root_ + "/" + to));
    std::vector<std::byte> piece(1 << 18);
    for (std::uint64_t at = 0; at < in->size();) {
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), in->size() - at));
      LOCKSTEP_TRY(in->read_at(at, std::span(piece).first(bytes)));
      LOCKSTEP_TRY(file_->append(std::span<const std::byte>(piece).first(bytes)));
      at += bytes;
    }
    return close();
  }

  Env& env_;
  const std::string root_;
  const Durable durable_;
  std::unique_ptr<File> file_;
};

}  // namespace

Status extract(Env& env, const std::string& archive, const std::string& folder, Durable durable,
               const Stopped& stopped) {
  LOCKSTEP_ASSIGN(Source whole, open_source(env, archive));
  const Source source = stoppable(std::move(whole), stopped);
  ToDisk disk(env, folder, durable);
  Status status = read_tar(source, {}, disk);
  if (status.ok()) status = disk.close();
  if (status.ok()) return {};
  return Error{status.error().kind, "'" + archive + "': " + status.error().message};
}

}  // namespace lockstep::data
