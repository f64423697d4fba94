#include "photographs.h"

#include <filesystem>
#include <system_error>

namespace classifier {
namespace {

namespace fs = std::filesystem;
using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Result;
using lockstep::transforms::AutoAugment;
using lockstep::transforms::Compose;
using lockstep::transforms::Resize;
using lockstep::transforms::ToTensor;

constexpr const char* kTrain = "/Train";
constexpr const char* kValidation = "/Validation";
constexpr const char* kTest = "/Test";

bool has_photographs(const std::string& folder) {
  std::error_code none;
  return fs::is_directory(folder + kTrain, none) && fs::is_directory(folder + kValidation, none);
}

Result<std::string> root_in(const std::string& folder) {
  if (has_photographs(folder)) return folder;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (has_photographs(entry->path().string())) return entry->path().string();
  return Error{ErrorKind::kBadData, "'" + folder +
                                        "' has no folders Train and Validation, and none in it has"
                                        " (" +
                                        (error ? error.message() : "--data") + ")"};
}

Result<std::string> folder_of(const Options& options) {
  std::error_code none;
  if (!fs::is_regular_file(options.data, none)) return options.data;
  if (options.stage.empty())
    return Error{ErrorKind::kUsage, "--data is the archive '" + options.data +
                                        "': give --stage DIR, into which it is unpacked"};
  return lockstep::data::unpack_once(options.data, options.stage);
}

}  // namespace

Result<Photographs> open_photographs(const Options& options) {
  LOCKSTEP_ASSIGN(const std::string folder, folder_of(options));
  LOCKSTEP_ASSIGN(const std::string root, root_in(folder));
  const auto side = static_cast<int>(options.image_size);
  const Compose plain{Resize{side, side}, ToTensor{}};
  const Compose augmented{AutoAugment{}, Resize{side, side}, ToTensor{}};
  Photographs found;
  LOCKSTEP_ASSIGN(found.train, lockstep::data::open_image_folder(root + kTrain, augmented));
  LOCKSTEP_ASSIGN(found.validation, lockstep::data::open_image_folder(root + kValidation, plain));
  std::error_code code;
  if (fs::is_directory(root + kTest, code)) {
    LOCKSTEP_ASSIGN(found.test, lockstep::data::open_image_folder(root + kTest, plain));
  }
  using lockstep::data::check_same_classes;
  LOCKSTEP_TRY(check_same_classes(*found.train, *found.validation, "Validation"));
  if (found.test != nullptr) LOCKSTEP_TRY(check_same_classes(*found.train, *found.test, "Test"));
  return found;
}

}  // namespace classifier
