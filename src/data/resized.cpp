// Pictures of another size.
#include <ATen/ops/_upsample_bilinear2d_aa.h>

#include <utility>

#include "base/errors.h"
#include "base/guard.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kMostSide = 4096;

class Resized final : public Dataset {
 public:
  Resized(std::shared_ptr<const Dataset> whole, std::int64_t height, std::int64_t width)
      : whole_(std::move(whole)), height_(height), width_(width) {}

  std::int64_t size() const override { return whole_->size(); }

  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    LOCKSTEP_ASSIGN(Batch batch, whole_->get(ids, pass));
    if (batch.size() == 0) return batch;
    const at::Tensor& inputs = batch.inputs;
    if (inputs.dim() != 4 || inputs.scalar_type() != at::kFloat)
      return misuse("resized(): inputs are " + std::string(at::toString(inputs.scalar_type())) +
                    " of " + std::to_string(inputs.dim()) +
                    " dimensions; pictures are Float of 4: [B, C, H, W]");
    if (inputs.size(2) != height_ || inputs.size(3) != width_)
      LOCKSTEP_TRY(guarded("resized()", ErrorKind::kInternal, [&]() -> Status {
        batch.inputs = at::_upsample_bilinear2d_aa(inputs, {height_, width_}, false);
        return {};
      }));
    return batch;
  }

  std::string why_left_out(std::int64_t id) const override { return whole_->why_left_out(id); }

  std::string fingerprint() const override {
    const std::string whole = whole_->fingerprint();
    return whole.empty()
               ? whole
               : whole + ", resized to " + std::to_string(height_) + "x" + std::to_string(width_);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::int64_t height_, width_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> resized(std::shared_ptr<const Dataset> whole,
                                               std::int64_t height, std::int64_t width) {
  if (whole == nullptr) return misuse("resized: there is no data set");
  for (const std::int64_t side : {height, width})
    if (side < 1 || side > kMostSide)
      return misuse("resized: a side is " + std::to_string(side) + "; 1 to " +
                    std::to_string(kMostSide) + " are possible");
  return std::shared_ptr<const Dataset>(std::make_shared<Resized>(std::move(whole), height, width));
}

}  // namespace lockstep::data
