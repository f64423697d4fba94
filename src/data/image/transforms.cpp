#include "data/image/transforms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "data/image/autoaugment.h"
#include "data/image/crops.h"

namespace lockstep::data::image {
namespace {

constexpr int kMaxSide = 1 << 16;

Error bad_transform(const std::string& what) {
  return Error{ErrorKind::kUsage, "transforms: " + what};
}

bool too_many_pixels(Size size) {
  return static_cast<std::uint64_t>(size.height) * static_cast<std::uint64_t>(size.width) >
         DecodeLimits{}.max_pixels;
}

std::string pixel_limit() {
  return ", the limit is " + std::to_string(DecodeLimits{}.max_pixels) + " pixels";
}

Status check_size(const char* name, Size size) {
  if (size.height < 1 || size.width < 1 || size.height > kMaxSide || size.width > kMaxSide)
    return bad_transform(std::string(name) + " to " + text(size) + " pixels, each must be 1 to " +
                         std::to_string(kMaxSide));
  if (too_many_pixels(size))
    return bad_transform(std::string(name) + " to " + text(size) + pixel_limit());
  return {};
}

Status check_range(const char* name, const std::array<double, 2>& range, double top) {
  if (!(range[0] > 0 && range[0] <= range[1] && range[1] <= top))
    return bad_transform(std::string("RandomResizedCrop's ") + name + " is " +
                         std::to_string(range[0]) + " to " + std::to_string(range[1]) +
                         ", must ascend above 0, up to " + std::to_string(top));
  return {};
}

Status check(const Resize& step) {
  if (step.width == 0 && step.max_side != 0 && step.max_side <= step.height)
    return bad_transform("Resize's max_side is " + std::to_string(step.max_side) +
                         ", must exceed the shorter side's " + std::to_string(step.height));
  if (step.width != 0 && step.max_side != 0)
    return bad_transform("Resize takes max_side with the shorter side alone, not with two sizes");
  return check_size("Resize", {step.height, step.width == 0 ? step.height : step.width});
}
Status check(const CenterCrop& step) { return check_size("CenterCrop", {step.height, step.width}); }
Status check(const RandomCrop& step) {
  if (step.padding < 0 || step.padding > kMaxSide)
    return bad_transform("RandomCrop's padding is " + std::to_string(step.padding) +
                         ", must be 0 to " + std::to_string(kMaxSide));
  return check_size("RandomCrop", {step.height, step.width});
}
Status check(const RandomHorizontalFlip& step) {
  if (!(step.p >= 0 && step.p <= 1))
    return bad_transform("RandomHorizontalFlip's p is " + std::to_string(step.p) +
                         ", must be 0 to 1");
  return {};
}
Status check(const RandomResizedCrop& step) {
  LOCKSTEP_TRY(check_size("RandomResizedCrop", {step.height, step.width}));
  LOCKSTEP_TRY(check_range("scale", step.scale, 1.0));
  return check_range("ratio", step.ratio, kMaxSide);
}
Status check(const AutoAugment&) { return {}; }
Status check(const ToTensor&) { return {}; }
Status check(const Normalize& step) {
  for (const float std : step.std)
    if (!(std > 0))
      return bad_transform("Normalize's std is " + std::to_string(std) + ", must exceed 0");
  return {};
}

// What RandomCrop pads to, and whether the crop fits then.
Result<Size> padded(const RandomCrop& step, Size in) {
  Size size{in.height + 2 * step.padding, in.width + 2 * step.padding};
  // On both sides by what is missing, as torchvision does, not by half of it.
  if (step.pad_if_needed) {
    size.width += 2 * std::max(0, step.width - size.width);
    size.height += 2 * std::max(0, step.height - size.height);
  }
  if (size.width < step.width || size.height < step.height)
    return Error{ErrorKind::kBadData,
                 "transforms: RandomCrop of " + text({step.height, step.width}) +
                     " does not fit in a picture of " + text(size) +
                     " (padding included); resize first, or use pad_if_needed"};
  if (too_many_pixels(size))
    return Error{ErrorKind::kBadData,
                 "transforms: RandomCrop pads to " + text(size) + pixel_limit()};
  return size;
}

Result<Size> size_after(const Resize& step, Size in) {
  return step.width > 0 ? Size{step.height, step.width}
                        : resized_to_side(in, step.height, step.max_side);
}
Result<Size> size_after(const RandomCrop& step, Size in) {
  LOCKSTEP_TRY(padded(step, in));
  return Size{step.height, step.width};
}
Result<Size> size_after(const RandomHorizontalFlip&, Size in) { return in; }
Result<Size> size_after(const AutoAugment&, Size in) { return in; }
Result<Size> size_after(const ToTensor&, Size in) { return in; }
Result<Size> size_after(const Normalize&, Size in) { return in; }
template <class Step>
Result<Size> size_after(const Step& step, Size) {
  return Size{step.height, step.width};
}

Size size_of(const Canvas& canvas) { return {canvas.height(), canvas.width()}; }

void resize_to(Canvas& canvas, Size to) {
  if (size_of(canvas) != to) canvas.resize(to.width, to.height);
}

Status run(const Resize& step, Canvas& canvas, SampleRandom&) {
  const Size to = *size_after(step, size_of(canvas));
  if (to.height < 1 || to.width < 1 || too_many_pixels(to))
    return Error{ErrorKind::kBadData, "transforms: Resize of a picture of " +
                                          text(size_of(canvas)) + " would give one of " + text(to) +
                                          pixel_limit()};
  resize_to(canvas, to);
  return {};
}
Status run(const CenterCrop& step, Canvas& canvas, SampleRandom&) {
  canvas.crop(center_crop(size_of(canvas), {step.height, step.width}));
  return {};
}
Status run(const RandomCrop& step, Canvas& canvas, SampleRandom& random) {
  LOCKSTEP_TRY(padded(step, size_of(canvas)));
  const int p = step.padding;
  if (p > 0) canvas.pad({p, p, p, p}, step.mode, step.fill);
  const int across = step.width - canvas.width();
  if (across > 0) canvas.pad({across, 0, across, 0}, step.mode, step.fill);
  const int down = step.height - canvas.height();
  if (down > 0) canvas.pad({0, down, 0, down}, step.mode, step.fill);
  canvas.crop(random_crop(size_of(canvas), {step.height, step.width}, random));
  return {};
}
Status run(const RandomHorizontalFlip& step, Canvas& canvas, SampleRandom& random) {
  if (random.uniform() < static_cast<float>(step.p)) canvas.flip();
  return {};
}
Status run(const RandomResizedCrop& step, Canvas& canvas, SampleRandom& random) {
  canvas.crop(random_resized_crop(size_of(canvas), step.scale, step.ratio, random));
  resize_to(canvas, {step.height, step.width});
  return {};
}
Status run(const AutoAugment& step, Canvas& canvas, SampleRandom& random) {
  auto_augment(canvas, step.policy, random);
  return {};
}
Status run(const ToTensor&, Canvas&, SampleRandom&) { return {}; }
Status run(const Normalize&, Canvas&, SampleRandom&) { return {}; }

// Samples lie far apart in memory: what comes next is asked for while this one is computed.
void prefetch(const PixelView& view) {
  constexpr std::ptrdiff_t kLine = 64;
  constexpr std::ptrdiff_t kMost = 16384;  // larger ones would push out what is in use
  const std::ptrdiff_t planes = view.interleaved() ? 0 : (kChannels - 1) * view.plane;
  const std::ptrdiff_t bytes = std::min(kMost, view.height * view.row + planes);
  for (std::ptrdiff_t at = 0; at < bytes; at += kLine) __builtin_prefetch(view.pixels + at);
}

template <class Step>
bool is(const Transform& transform) {
  return std::holds_alternative<Step>(transform);
}

}  // namespace

Result<Transforms> Transforms::make(transforms::Compose steps) {
  for (const Transform& step : steps)
    LOCKSTEP_TRY(std::visit([](const auto& s) { return check(s); }, step));
  Transforms made;
  if (!steps.empty() && is<Normalize>(steps.back())) {
    const Normalize& last = std::get<Normalize>(steps.back());
    made.values_ = PixelValues(last.mean, last.std);
    steps.pop_back();
  }
  if (steps.empty() || !is<ToTensor>(steps.back()))
    return bad_transform("the list must end with ToTensor, or with ToTensor and Normalize");
  steps.pop_back();
  if (std::ranges::any_of(steps, [](const auto& s) { return is<ToTensor>(s) || is<Normalize>(s); }))
    return bad_transform("ToTensor and Normalize stand at the end, once each");
  made.steps_ = std::move(steps);
  return made;
}

Result<Size> Transforms::output_size(Size in) const {
  for (const Transform& step : steps_) {
    LOCKSTEP_ASSIGN(in, std::visit([&](const auto& s) { return size_after(s, in); }, step));
  }
  return in;
}

std::optional<Size> Transforms::fixed_size() const {
  const auto own_size = [](const auto& step) -> std::optional<Size> {
    if constexpr (requires { step.height; }) return Size{step.height, step.width};
    return std::nullopt;
  };
  std::optional<Size> size;  // the last step's that has one
  for (const Transform& step : steps_) {
    const auto own = std::visit(own_size, step);
    size = own ? own : size;
  }
  return size && size->width > 0 ? size : std::nullopt;  // Resize to a side: follows the picture
}

Status Transforms::run(Canvas& canvas, SampleRandom& random, std::size_t first) const {
  for (std::size_t i = first; i < steps_.size(); ++i)
    LOCKSTEP_TRY(
        std::visit([&](const auto& s) { return image::run(s, canvas, random); }, steps_[i]));
  return {};
}

Status Transforms::finish(const Canvas& canvas, std::span<float> out) const {
  const Size size = size_of(canvas);
  const std::size_t values = values_of(size);
  if (out.size() != values)
    return bad_transform("pictures come out as 3 x " + text(size) + ", which is " +
                         std::to_string(values) + " values, and there is room for " +
                         std::to_string(out.size()) + "; end with a crop or a Resize to two sizes");
  canvas.write(values_, out.data());
  return {};
}

Status Transforms::apply(const PixelView& in, SampleRandom& random, Workspace& workspace,
                         std::span<float> out) const {
  Canvas canvas(in, workspace.canvas);
  LOCKSTEP_TRY(run(canvas, random, 0));
  return finish(canvas, out);
}

Status Transforms::apply(Bytes file, std::string_view name, SampleRandom& random,
                         Workspace& workspace, std::span<float> out) const {
  Image& decoded = workspace.canvas.decoded;
  const auto* crop = steps_.empty() ? nullptr : std::get_if<RandomResizedCrop>(&steps_.front());
  if (crop == nullptr) {
    LOCKSTEP_TRY(decode(file, name, decoded));
    return apply(decoded.view(), random, workspace, out);
  }
  const auto choose = [&](int width, int height) {
    return random_resized_crop({height, width}, crop->scale, crop->ratio, random);
  };
  LOCKSTEP_ASSIGN(const PixelView part, decode_region(file, name, choose, decoded));
  Canvas canvas(part, workspace.canvas);
  resize_to(canvas, {crop->height, crop->width});
  LOCKSTEP_TRY(run(canvas, random, 1));
  return finish(canvas, out);
}

Status Transforms::apply_batch(std::span<const PixelView> in, std::span<const std::uint32_t> keys,
                               Workspace& workspace, std::span<float> out) const {
  if (in.size() != keys.size() || in.empty() || out.size() % in.size() != 0)
    return bad_transform(std::to_string(in.size()) + " pictures, " + std::to_string(keys.size()) +
                         " keys and room for " + std::to_string(out.size()) +
                         " values do not belong together");
  workspace.randoms.resize(keys.size());
  SampleRandom::make(keys, workspace.randoms);
  const std::size_t each = out.size() / in.size();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (i + 1 < in.size()) prefetch(in[i + 1]);
    LOCKSTEP_TRY(apply(in[i], workspace.randoms[i], workspace, out.subspan(i * each, each)));
  }
  return {};
}

Status Transforms::picture(const PixelView& in, SampleRandom& random, Workspace& workspace,
                           Image& out) const {
  Canvas canvas(in, workspace.canvas);
  LOCKSTEP_TRY(run(canvas, random, 0));
  const PixelView made = canvas.pixels();
  out.resize(made.width, made.height);
  for (int y = 0; y < made.height; ++y) std::copy_n(made.at(0, y), out.row_bytes(), out.row(y));
  return {};
}

}  // namespace lockstep::data::image
