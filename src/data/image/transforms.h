// Lists of torchvision's transforms on its PIL back end, bit for bit (torchvision 0.26.0, Pillow
// 12.0.0), drawing from the sample's stream in torchvision's order: in Python
//   torch.manual_seed(key); torchvision.transforms.Compose([...])(Image.open(path).convert("RGB"))
// gives the same numbers as Transforms::apply() with SampleRandom(key) here.
// One exception: RandomResizedCrop rounds exp() correctly, torch 2.11 on x86-64 (MKL) in 99 of 100
// cases; about one crop in some millions comes out a pixel wider or narrower than there.
//
// Errors: kUsage for values out of range and lists in the wrong order, kBadData for pictures that
// cannot be cropped or decoded. Threads: a Transforms may be used from many, a Workspace from one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/canvas.h"
#include "data/image/decode.h"
#include "data/image/resize.h"
#include "data/image/sample_random.h"
#include "lockstep/status.h"
#include "lockstep/transforms.h"

namespace lockstep::data::image {

using transforms::AutoAugment;
using transforms::AutoAugmentPolicy;
using transforms::CenterCrop;
using transforms::Normalize;
using transforms::RandomCrop;
using transforms::RandomHorizontalFlip;
using transforms::RandomResizedCrop;
using transforms::Resize;
using transforms::ToTensor;
using transforms::Transform;

// Memory for one thread's work. What it holds changes no result.
struct Workspace {
  CanvasBuffers canvas;
  std::vector<SampleRandom> randoms;
};

class Transforms {
 public:
  static Result<Transforms> make(transforms::Compose steps);

  // Of what a picture of this size becomes. kBadData where a crop does not fit.
  Result<Size> output_size(Size in) const;
  // Of what every picture becomes; none: it depends on the picture.
  std::optional<Size> fixed_size() const;

  // float32 [3, height, width] of output_size(), which `out` must have room for exactly.
  Status apply(const PixelView& in, SampleRandom& random, Workspace& workspace,
               std::span<float> out) const;
  // Decodes and applies; `name` is for messages. Where the list begins with RandomResizedCrop only
  // the part that is needed is decoded.
  Status apply(Bytes file, std::string_view name, SampleRandom& random, Workspace& workspace,
               std::span<float> out) const;
  // in[i] with SampleRandom(keys[i]) to the i-th part of `out`: [batch, 3, height, width].
  Status apply_batch(std::span<const PixelView> in, std::span<const std::uint32_t> keys,
                     Workspace& workspace, std::span<float> out) const;

  // The picture as it is before ToTensor, for people to look at.
  Status picture(const PixelView& in, SampleRandom& random, Workspace& workspace, Image& out) const;

 private:
  Transforms() = default;
  Status run(Canvas& canvas, SampleRandom& random, std::size_t first) const;
  Status finish(const Canvas& canvas, std::span<float> out) const;

  std::vector<Transform> steps_;  // up to ToTensor
  PixelValues values_;
};

}  // namespace lockstep::data::image
