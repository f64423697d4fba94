#include "inspect/data/sheet.h"

#include <algorithm>
#include <map>

#include "data/image/transforms.h"
#include "inspect/data/augmentation.h"
#include "inspect/data/png_writer.h"
#include "inspect/html.h"
#include "inspect/text.h"

namespace lockstep::inspect {
namespace {

using data::image::Image;
using data::image::SampleRandom;
using data::image::Transforms;

constexpr int kSide = 96;                  // of a thumbnail's shorter side, at most
constexpr int kLongSide = 240;             // of the other
constexpr std::size_t kEpochs = 3;         // of augmented versions
constexpr std::size_t kMostClasses = 100;  // with samples on the page
constexpr std::uint64_t kSeed = 0;
constexpr std::size_t kBarPixels = 96;  // of the largest count

// Makes the pictures of a page.
class Painter {
 public:
  static Result<Painter> make(const transforms::Compose& augmentation) {
    auto steps = augmentation;
    steps.emplace_back(transforms::ToTensor{});
    LOCKSTEP_ASSIGN(Transforms augment, Transforms::make(std::move(steps)));
    LOCKSTEP_ASSIGN(Transforms shrink, Transforms::make({transforms::Resize{kSide, 0, kLongSide},
                                                         transforms::ToTensor{}}));
    return Painter(std::move(augment), std::move(shrink));
  }

  // <img>, small; pictures of few pixels are shown larger.
  Result<std::string> shown(const Image& image, const std::string& alt) {
    const Image* small = &image;
    if (std::min(image.width(), image.height()) > kSide) {
      SampleRandom unused(0);
      LOCKSTEP_TRY(shrink_.picture(image.view(), unused, workspace_, small_));
      small = &small_;
    }
    LOCKSTEP_ASSIGN(const auto png, encode_png(*small));
    const int times = std::max(1, kSide / std::max(1, std::max(small->width(), small->height())));
    const std::string name = escaped(alt);
    return "<img alt=\"" + name + "\" title=\"" + name + "\" width=\"" +
           std::to_string(small->width() * times) + "\" height=\"" +
           std::to_string(small->height() * times) + "\" src=\"data:image/png;base64," +
           base64(png) + "\">";
  }

  // A picture above what it is.
  static std::string view(const std::string& picture, const std::string& what) {
    return "<span>" + picture + "<span class=\"faint\">" + what + "</span></span>";
  }

  // As a run with seed 0 sees sample `id` in its first epochs.
  Result<std::string> augmented(const Image& image, std::size_t id) {
    std::string html;
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      SampleRandom random(data::image::sample_key(kSeed, epoch, id));
      LOCKSTEP_TRY(augment_.picture(image.view(), random, workspace_, changed_));
      const std::string when = "epoch " + std::to_string(epoch);
      LOCKSTEP_ASSIGN(const std::string each, shown(changed_, "augmented, " + when));
      html += view(each, when);
    }
    return html;
  }

 private:
  Painter(Transforms augment, Transforms shrink)
      : augment_(std::move(augment)), shrink_(std::move(shrink)) {}
  Transforms augment_, shrink_;
  data::image::Workspace workspace_;
  Image changed_, small_;
};

Result<std::string> sample(const Split& split, std::size_t index, bool augment, Painter& painter) {
  Image image;
  LOCKSTEP_TRY(split.picture(index, image));
  const std::string name = split.picture_name(index);
  LOCKSTEP_ASSIGN(std::string html, painter.shown(image, name));
  if (augment) {
    LOCKSTEP_ASSIGN(const std::string more, painter.augmented(image, index));
    html = "<div class=\"views\">" + Painter::view(html, "original") + more + "</div>";
  }
  return "<figure>" + html + "<figcaption>" + escaped(name) + ", " + std::to_string(image.width()) +
         " × " + std::to_string(image.height()) + "</figcaption></figure>\n";
}

std::string damaged_sample(const std::string& why) {
  return "<figure><figcaption class=\"faint\">cannot be shown: " + escaped(why) +
         "</figcaption></figure>\n";
}

Status add_class(const Split& split, const std::vector<std::size_t>& indices, bool augment,
                 std::size_t samples, Painter& painter, Sheet& sheet) {
  sheet.html += "<div class=\"samples\">\n";
  for (const std::size_t i : spread(indices.size(), samples)) {
    auto html = sample(split, indices[i], augment, painter);
    if (!html.ok() && html.error().kind != ErrorKind::kBadData) return html.error();
    if (!html.ok()) sheet.damaged.push_back(html.error().message);
    sheet.html += html.ok() ? *html : damaged_sample(html.error().message);
  }
  sheet.html += "</div>\n";
  return {};
}

Status add_split(const Split& split, const SheetOptions& options, Painter& painter, Sheet& sheet) {
  const bool augment = split.training && !options.augmentation.empty();
  sheet.html += "<h2>" + escaped(split.name) + ": samples</h2>\n";
  if (augment)
    sheet.html += "<p class=\"faint\">Each as it is, then as " +
                  escaped(described(options.augmentation)) + " gives it in epochs 0 to " +
                  std::to_string(kEpochs - 1) + " of a run with seed 0.</p>\n";
  const auto classes = by_class(split);
  for (const std::size_t c : spread(classes.size(), kMostClasses)) {
    sheet.html += "<h3>" + escaped(split.classes[c]) + " <span class=\"faint\">" +
                  counted(classes[c].size(), "picture") + "</span></h3>\n";
    LOCKSTEP_TRY(add_class(split, classes[c], augment, options.samples, painter, sheet));
  }
  if (classes.size() > kMostClasses)
    sheet.html += "<p class=\"faint\">Samples of " + std::to_string(kMostClasses) + " of " +
                  std::to_string(classes.size()) + " classes.</p>\n";
  return {};
}

// Of a class in a split; all splits have one scale.
std::string bar(std::size_t split, std::size_t count, std::size_t most) {
  return "<span class=\"bar\" style=\"width:" +
         std::to_string((kBarPixels * count + most - 1) / most) + "px;background:var(--s" +
         std::to_string(split % kPageColours) + ")\"></span>";
}

// Counts of all classes by split; a class may be missing in one.
std::string counts_table(const PictureData& data) {
  std::map<std::string, std::vector<std::size_t>> counts;
  std::size_t most = 1;
  for (std::size_t s = 0; s < data.splits.size(); ++s) {
    const auto classes = by_class(data.splits[s]);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      auto& row = counts[data.splits[s].classes[c]];
      row.resize(data.splits.size());
      row[s] = classes[c].size();
      most = std::max(most, classes[c].size());
    }
  }
  std::string html = "<div class=\"wide\">\n<table>\n<thead><tr><td>class</td>";
  for (const Split& split : data.splits)
    html += "<th scope=\"col\">" + escaped(split.name) + "</th><td class=\"bars\"></td>";
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& [name, row] : counts) {
    html += "<tr><th scope=\"row\">" + escaped(name) + "</th>";
    for (std::size_t s = 0; s < row.size(); ++s)
      html +=
          "<td>" + grouped(row[s]) + "</td><td class=\"bars\">" + bar(s, row[s], most) + "</td>";
    html += "</tr>\n";
  }
  html += "<tr><th scope=\"row\"><strong>all</strong></th>";
  for (const Split& split : data.splits)
    html +=
        "<td><strong>" + grouped(split.labels.size()) + "</strong></td><td class=\"bars\"></td>";
  return html + "</tr>\n</tbody>\n</table>\n</div>\n";
}

}  // namespace

std::vector<std::size_t> spread(std::size_t all, std::size_t wanted) {
  std::vector<std::size_t> chosen;
  const std::size_t count = std::min(all, wanted);
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(i * all / count);
  return chosen;
}

std::vector<std::vector<std::size_t>> by_class(const Split& split) {
  std::vector<std::vector<std::size_t>> classes(split.classes.size());
  for (std::size_t i = 0; i < split.labels.size(); ++i) classes.at(split.labels[i]).push_back(i);
  return classes;
}

Result<Sheet> make_sheet(const PictureData& data, const std::string& title,
                         const SheetOptions& options) {
  LOCKSTEP_ASSIGN(Painter painter, Painter::make(options.augmentation));
  Sheet sheet;
  sheet.html =
      "<p>Format: " + escaped(data.format) + ".</p>\n<h2>Class counts</h2>\n" + counts_table(data);
  for (const Split& split : data.splits) LOCKSTEP_TRY(add_split(split, options, painter, sheet));
  sheet.html = html_page(title, sheet.html);
  return sheet;
}

}  // namespace lockstep::inspect
