#include "data/vision/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
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
constexpr std::array<std::string_view, 3> kJpegToo{".jfif", ".jpe", ".jfi"};
constexpr std::array<std::string_view, 14> kConvertible{".bmp",  ".gif",  ".webp", ".tif", ".tiff",
                                                        ".ppm",  ".pgm",  ".pbm",  ".pnm", ".heic",
                                                        ".heif", ".avif", ".jp2",  ".tga"};
constexpr std::string_view kAppleDouble = "._";
constexpr std::size_t kMostEndings = 8;  // named in a line

Error bad(const std::string& root, const std::string& what) {
  return {ErrorKind::kBadData, "pictures in '" + root + "': " + what};
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// As Python's str.lower().endswith(): ".jpg" alone counts too.
bool is_picture(const std::string& name) {
  const std::string low = lower(name);
  return !name.starts_with(kAppleDouble) &&
         std::ranges::any_of(kRead, [&](std::string_view end) { return low.ends_with(end); });
}

std::string ending_of(const std::string& name) {
  if (name.starts_with(kAppleDouble)) return "._*";
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "no ending" : lower(name.substr(dot));
}

template <class Endings>
bool any_of(const ImageFolder& folder, const Endings& endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) {
    return folder.left_out.contains(std::string(ending));
  });
}

// "3 .bmp, 2 .txt".
std::string counted(const std::map<std::string, std::int64_t>& endings) {
  std::vector<std::pair<std::string, std::int64_t>> most(endings.begin(), endings.end());
  std::ranges::sort(most, {}, [](const auto& one) { return std::pair(-one.second, one.first); });
  std::string text;
  std::int64_t others = 0;
  for (std::size_t i = 0; i < most.size(); ++i)
    if (i < kMostEndings)
      text += (i == 0 ? "" : ", ") + std::to_string(most[i].second) + " " + most[i].first;
    else
      others += most[i].second;
  return text + (others > 0 ? ", " + std::to_string(others) + " others" : "");
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

Status add_picture(const std::string& path, ImageFolder& out) {
  const auto label = static_cast<std::int64_t>(out.classes.size()) - 1;
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  std::error_code unknown;  // a link in a circle, for one
  if (error && fs::exists(path, unknown))
    return bad(out.root, "'" + path + "' is no regular file; move it away");
  if (error) return bad(out.root, "picture '" + path + "': " + error.message());
  out.files.push_back({path, label, bytes});
  return {};
}

Error empty_class(const ImageFolder& folder, const std::map<std::string, std::int64_t>& others) {
  return bad(folder.root, "class '" + folder.classes.back() +
                              "' has no picture (.jpg, .jpeg, .png)" +
                              (others.empty() ? "" : ", but " + counted(others)) +
                              "; add or convert some, or remove the folder");
}

Status add_class(const std::string& name, ImageFolder& out) {
  const std::size_t before = out.files.size();
  std::vector<Folder> folders;
  LOCKSTEP_TRY(walk(out.root + "/" + name, 0, folders));
  std::ranges::sort(folders, {}, &Folder::path);
  out.classes.push_back(name);
  std::map<std::string, std::int64_t> others;
  for (const Folder& folder : folders)
    for (const std::string& file : folder.files) {
      if (is_picture(file))
        LOCKSTEP_TRY(add_picture(folder.path + "/" + file, out));
      else
        ++others[ending_of(file)];
    }
  if (out.files.size() == before) {
    // Of programs: .git, .ipynb_checkpoints, what macOS packs beside the pictures.
    if (!name.starts_with('.') && name != "__MACOSX") return empty_class(out, others);
    out.classes.pop_back();
    out.no_classes.push_back(name);
    return {};
  }
  for (const auto& [ending, count] : others) out.left_out[ending] += count;
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
  out.root = root;
  for (const std::string& name : top.folders) LOCKSTEP_TRY(add_class(name, out));
  if (out.classes.empty()) return bad(root, "no folder in it has a picture (.jpg, .jpeg, .png)");
  out.beside_classes = std::ranges::count_if(top.files, is_picture);
  return out;
}

std::string left_out_by_name(const ImageFolder& folder) {
  std::string what = counted(folder.left_out);
  const auto add = [&](const std::string& more) { what += (what.empty() ? "" : ", ") + more; };
  if (folder.beside_classes > 0)
    add(std::to_string(folder.beside_classes) +
        (folder.beside_classes == 1 ? " picture" : " pictures") + " beside the classes' folders");
  for (const std::string& name : folder.no_classes) add("folder '" + name + "'");
  if (what.empty()) return what;
  std::string text = "pictures in '" + folder.root + "': not in the set by their names: " + what +
                     " (.jpg, .jpeg and .png are)";
  if (any_of(folder, kJpegToo)) text += "; rename JPEG files to .jpg";
  if (any_of(folder, kConvertible))
    text += "; convert the others, as by ImageMagick's `mogrify -format png FILES`";
  return text;
}

}  // namespace lockstep::data
