#include "data/vision/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Deeper is a link that leads back to where it is.
constexpr int kMostFolders = 30;
constexpr std::array<std::string_view, 3> kRead{".jpg", ".jpeg", ".png"};
constexpr std::array<std::string_view, 6> kNotRead{".ppm", ".bmp",  ".pgm",
                                                   ".tif", ".tiff", ".webp"};

Error bad(const std::string& root, const std::string& what) {
  return {ErrorKind::kBadData, "pictures in '" + root + "': " + what};
}

// As Python's str.lower().endswith(): ".jpg" alone counts too.
bool ends_in(const std::string& name, std::span<const std::string_view> endings) {
  std::string lower = name;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::ranges::any_of(endings, [&](std::string_view end) { return lower.ends_with(end); });
}

struct Listing {
  std::vector<std::string> folders, files;  // names, sorted
};

Result<Listing> list(const std::string& path) {
  std::error_code error;
  Listing found;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;  // a link to nowhere is a file, for which there is no picture
    (entry->is_directory(gone) ? found.folders : found.files)
        .push_back(entry->path().filename().string());
  }
  if (error)
    return Error{
        error == std::errc::no_such_file_or_directory ? ErrorKind::kBadData : ErrorKind::kDisk,
        "cannot list '" + path + "': " + error.message()};
  std::ranges::sort(found.folders);
  std::ranges::sort(found.files);
  return found;
}

struct Folder {
  std::string path;
  std::vector<std::string> files;
};

Status walk(const std::string& path, int depth, std::vector<Folder>& all) {
  if (depth > kMostFolders)
    return Error{ErrorKind::kBadData, "'" + path + "' is more than " +
                                          std::to_string(kMostFolders) +
                                          " folders deep; does a link lead back to one above it?"};
  LOCKSTEP_ASSIGN(Listing here, list(path));
  all.push_back({path, std::move(here.files)});
  for (const std::string& name : here.folders)
    LOCKSTEP_TRY(walk(path + "/" + name, depth + 1, all));
  return {};
}

Status add_class(const std::string& root, ImageFolder& out) {
  const auto label = static_cast<std::int64_t>(out.classes.size()) - 1;
  const std::size_t before = out.files.size();
  std::vector<Folder> folders;
  LOCKSTEP_TRY(walk(root + "/" + out.classes.back(), 0, folders));
  std::ranges::sort(folders, {}, &Folder::path);
  for (const Folder& folder : folders)
    for (const std::string& name : folder.files) {
      const std::string path = folder.path + "/" + name;
      if (ends_in(name, kNotRead))
        return bad(root, "'" + path +
                             "' is in a format that is not read here (JPEG and PNG are); "
                             "convert it or move it away");
      if (!ends_in(name, kRead)) continue;
      std::error_code error;
      const std::uint64_t bytes = fs::file_size(path, error);
      std::error_code unknown;  // a link in a circle, for one
      if (error && fs::exists(path, unknown))
        return bad(root, "'" + path + "' is no regular file; move it away");
      if (error) return bad(root, "picture '" + path + "': " + error.message());
      out.files.push_back({path, label, bytes});
    }
  if (out.files.size() == before)
    return bad(root, "class '" + out.classes.back() +
                         "' has no picture (.jpg, .jpeg, .png); add some or remove the folder");
  return {};
}

}  // namespace

Result<ImageFolder> read_image_folder(const std::string& root) {
  LOCKSTEP_ASSIGN(const Listing top, list(root));
  if (top.folders.empty())
    return bad(root,
               "there is no folder in it; pictures are expected in one folder for each class,"
               " as in '" +
                   root + "/CLASS/picture.jpg'");
  ImageFolder out;
  for (const std::string& name : top.folders) {
    out.classes.push_back(name);
    LOCKSTEP_TRY(add_class(root, out));
  }
  return out;
}

}  // namespace lockstep::data
