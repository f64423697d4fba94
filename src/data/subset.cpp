// Parts of a data set.
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "base/guard.h"
#include "base/hash.h"
#include "data/ids.h"
#include "data/pieces.h"
#include "lockstep/data.h"

namespace lockstep::data {
namespace {

// What the samples of a batch are called in the whole set and in its part.
struct Names {
  std::vector<std::int64_t> in_whole, in_part;

  // The whole set may have left some out.
  void rename(std::vector<std::int64_t>& delivered) const {
    std::size_t next = 0;
    for (std::int64_t& id : delivered) {
      while (next < in_whole.size() && in_whole[next] != id) ++next;
      if (next < in_whole.size()) id = in_part[next++];
    }
  }
};

// The whole set's pieces, the part's names.
class Renamed final : public Pieces {
 public:
  Renamed(std::unique_ptr<Pieces> made, Names names)
      : made_(std::move(made)), names_(std::move(names)) {}
  std::size_t count() const override { return made_->count(); }
  Status fill(std::size_t piece) override { return made_->fill(piece); }
  Result<Batch> take() override {
    LOCKSTEP_ASSIGN(Batch batch, made_->take());
    names_.rename(batch.ids);
    return batch;
  }

 private:
  const std::unique_ptr<Pieces> made_;
  const Names names_;
};

class Subset final : public Dataset, public InPieces {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> ids)
      : whole_(std::move(whole)), ids_(std::move(ids)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }

  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    const Names names = names_of(ids);
    LOCKSTEP_ASSIGN(Batch batch, whole_->get(names.in_whole, pass));
    names.rename(batch.ids);
    return batch;
  }
  Result<std::unique_ptr<Pieces>> pieces(std::span<const std::int64_t> ids,
                                         const Pass& pass) const override {
    LOCKSTEP_TRY(check_ids(ids, size()));
    const auto* const whole = dynamic_cast<const InPieces*>(whole_.get());
    if (whole == nullptr) return std::unique_ptr<Pieces>();
    Names names = names_of(ids);
    LOCKSTEP_ASSIGN(auto made, whole->pieces(names.in_whole, pass));
    if (made == nullptr) return made;
    return std::unique_ptr<Pieces>(std::make_unique<Renamed>(std::move(made), std::move(names)));
  }

  std::string why_left_out(std::int64_t id) const override {
    return whole_->why_left_out(ids_[static_cast<std::size_t>(id)]);
  }

  std::string fingerprint() const override {
    Xxh3 hash;
    hash.update(std::as_bytes(std::span(ids_)));
    const std::string whole = whole_->fingerprint();
    return whole.empty() ? whole : whole + ", of it " + hash.hex();
  }

 private:
  Names names_of(std::span<const std::int64_t> ids) const {
    Names names{{}, {ids.begin(), ids.end()}};
    for (const std::int64_t id : ids) names.in_whole.push_back(ids_[static_cast<std::size_t>(id)]);
    return names;
  }

  const std::shared_ptr<const Dataset> whole_;
  const std::vector<std::int64_t> ids_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> subset(std::shared_ptr<const Dataset> whole,
                                              std::vector<std::int64_t> ids) {
  if (whole == nullptr) return misuse("subset: there is no data set");
  LOCKSTEP_TRY(check_ids(ids, whole->size()));
  return std::shared_ptr<const Dataset>(std::make_shared<Subset>(std::move(whole), std::move(ids)));
}

Result<Parts> random_split(const std::shared_ptr<const Dataset>& whole,
                           const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  if (whole == nullptr) return misuse("random_split: there is no data set");
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > whole->size() - sum)
      return misuse("random_split: the lengths must sum to the set's " +
                    std::to_string(whole->size()) + " samples, " + std::to_string(length) +
                    " after " + std::to_string(sum) + " do not fit");
    sum += length;
  }
  if (sum != whole->size())
    return misuse("random_split: the lengths sum to " + std::to_string(sum) +
                  ", must be the set's " + std::to_string(whole->size()) + " samples");
  return guarded("random_split", ErrorKind::kInternal, [&]() -> Result<Parts> {
    const auto order = randperm(whole->size(), at::detail::createCPUGenerator(seed));
    auto next = order.begin();
    Parts parts;
    for (const std::int64_t length : lengths) {
      LOCKSTEP_ASSIGN(auto part, subset(whole, {next, next + length}));
      parts.push_back(std::move(part));
      next += length;
    }
    return parts;
  });
}

Result<Parts> random_split_fractions(const std::shared_ptr<const Dataset>& whole,
                                     const std::vector<double>& fractions, std::uint64_t seed) {
  if (whole == nullptr) return misuse("random_split: there is no data set");
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  if (!(std::abs(sum - 1) <= 1e-9))  // math.isclose's default, where Python asks
    return misuse("random_split: the fractions sum to " + std::to_string(sum) + ", must be 1");
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions) {
    if (!(fraction >= 0 && fraction <= 1))
      return misuse("random_split: a fraction is " + std::to_string(fraction) +
                    ", each must be 0 to 1");
    lengths.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<double>(whole->size()) * fraction)));
  }
  std::int64_t left =
      whole->size() - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; --left, i = (i + 1) % lengths.size()) ++lengths[i];
  return random_split(whole, lengths, seed);
}

}  // namespace lockstep::data
