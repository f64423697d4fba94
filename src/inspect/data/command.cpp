// `lockstep data show`.
#include <array>
#include <filesystem>

#include "base/log.h"
#include "base/text.h"
#include "inspect/arguments.h"
#include "inspect/commands.h"
#include "inspect/data/augmentation.h"
#include "inspect/data/sheet.h"
#include "inspect/files.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

constexpr const char* kUsage =
    "lockstep data show DIR [--out SHEET.html] [--samples N] [--augment LIST]";
constexpr std::size_t kMostSamples = 1000;

std::string help() {
  return std::string("usage: ") + kUsage +
         "\n\nDIR: folders of pictures by class (maybe below train/, validation/ and test/), "
         "CIFAR-10,\nCIFAR-100 or MNIST. Prints the counts of classes and splits.\n\n"
         "  --out SHEET.html  counts, labelled samples, training samples before and after\n"
         "                    augmentation, as one page that needs nothing else\n"
         "  --samples N       of each class of each split, 4 by default\n"
         "  --augment LIST    " +
         std::string(kAugmentWords) + "\n";
}

Result<std::size_t> samples_of(const Arguments& arguments) {
  const auto text = arguments.value("--samples");
  if (!text) return SheetOptions{}.samples;
  if (const auto samples = number_of<std::size_t>(*text);
      samples && *samples >= 1 && *samples <= kMostSamples)
    return *samples;
  return Error{ErrorKind::kUsage,
               "--samples is '" + *text + "', must be 1 to " + std::to_string(kMostSamples)};
}

std::string text_of(const PictureData& data) {
  std::string text = data.format + "\n";
  for (const Split& split : data.splits) {
    const auto classes = by_class(split);
    text += split.name + ": " + counted(split.labels.size(), "picture") + " in " +
            std::to_string(classes.size()) + (classes.size() == 1 ? " class" : " classes") + "\n";
    std::vector<std::vector<std::string>> rows;
    for (std::size_t c = 0; c < classes.size(); ++c)
      rows.push_back({"  " + split.classes[c], grouped(classes[c].size())});
    text += text_table(rows, std::array<std::size_t, 1>{1});
  }
  return text;
}

std::string title_of(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error).lexically_normal();
  const auto name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  return "Data set " + name.string();
}

}  // namespace

Result<Answer> data_command(Env& env, Words words) {
  if (words.empty() || words[0] != "show") return Error{ErrorKind::kUsage, help()};
  if (words.size() > 1 && (words[1] == "--help" || words[1] == "-h")) return Answer{help()};
  const Syntax syntax{kUsage, {}, {"--out", "--samples", "--augment"}, 1, 1};
  LOCKSTEP_ASSIGN(const Arguments arguments, parse(words.subspan(1), syntax));
  SheetOptions options;
  LOCKSTEP_ASSIGN(options.samples, samples_of(arguments));
  const auto augment = arguments.value("--augment");
  if (augment) {
    LOCKSTEP_ASSIGN(options.augmentation, parse_augmentation(*augment));
  }
  const std::string& path = arguments.paths.front();
  const auto out = arguments.value("--out");
  if (out) LOCKSTEP_TRY(check_not_read(env, *out, arguments.paths));
  LOCKSTEP_ASSIGN(const PictureData data, open_pictures(env, path));
  if (!augment) options.augmentation = data.augmentation;
  if (out) {
    LOCKSTEP_ASSIGN(const Sheet sheet, make_sheet(data, title_of(path), options));
    for (const std::string& damaged : sheet.damaged) log_warning("not shown: " + damaged);
    LOCKSTEP_TRY(write_atomically(env, *out, sheet.html));
  }
  return Answer{text_of(data)};
}

}  // namespace lockstep::inspect
