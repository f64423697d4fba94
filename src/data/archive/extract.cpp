#include "data/archive/extract.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

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
    LOCKSTEP_TRY(close());
    const std::size_t slash = path.rfind('/');
    if (slash != std::string::npos) LOCKSTEP_TRY(folder(path.substr(0, slash)));
    std::error_code code;
    if (fs::is_directory(root_ + "/" + path, code)) return file_and_folder(path);
    LOCKSTEP_ASSIGN(file_, env_.create(root_ + "/" + path));
    return file_->reserve(size);
  }
  Status content(std::span<const std::byte> piece) override { return file_->append(piece); }
  Status close() {
    const auto file = std::exchange(file_, nullptr);
    if (file == nullptr) return {};
    if (durable_ == Durable::kOnReturn) LOCKSTEP_TRY(file->sync());
    return file->close();
  }

 private:
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
