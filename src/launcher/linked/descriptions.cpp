#include "launcher/linked/descriptions.h"

#include <bit>
#include <string>
#include <utility>

#include "base/errors.h"
#include "coord/board.h"

namespace lockstep::launcher {
namespace {

Status check(const coord::message::Describe& d, const LaunchOptions& options) {
  if (d.virtual_workers < 1 || d.virtual_workers > coord::kMaxVirtualWorkers ||
      d.board.virtual_workers != d.virtual_workers)
    return misuse(std::to_string(d.virtual_workers) + " virtual workers; 1 to " +
                  std::to_string(coord::kMaxVirtualWorkers) + " are possible");
  if (!std::has_single_bit(d.board.ring) || d.board.ring > (1U << 20))
    return misuse("a ring of " + std::to_string(d.board.ring) +
                  " records; it must be a power of two");
  if (!d.run_dir.starts_with('/'))
    return misuse("the run directory '" + d.run_dir + "' is no absolute path");
  if (coord::Board(nullptr, d.board).data_offset() > coord::kBoardBytes / 2)
    return misuse("the records of one share (" + std::to_string(d.board.ids_capacity) +
                  " sample ids) do not fit the shared memory");
  // Scaling may come to as many.
  const auto most =
      d.elastic ? d.virtual_workers : static_cast<std::uint32_t>(options.nproc_per_node);
  return check_local_ranks(options, most,
                           d.elastic ? "the run's virtual workers" : "--nproc-per-node");
}

}  // namespace

Status Descriptions::add(WorkerUid worker, Describe description, const LaunchOptions& options) {
  if (!first_) {
    if (Status fits = check(description, options); !fits.ok()) {
      refused_options_ = true;
      return fits;
    }
    first_ = description;
  }
  waiting_[worker] = std::move(description);
  return {};
}

std::vector<coord::event::Described> Descriptions::settle(const std::optional<Error>& refusal) {
  std::vector<coord::event::Described> settled;
  for (auto& [worker, description] : std::exchange(waiting_, {})) {
    std::optional<Error> why = refusal;
    const std::string difference = coord::first_difference(*first_, description);
    if (!why && !difference.empty())
      why = misuse("it is not about to run the same as the others: " + difference);
    const bool tells = !why && !std::exchange(told_, true);
    settled.push_back({worker, description.virtual_workers, description.elastic, std::move(why),
                       coord::digest_of(description), tells ? coord::bytes_of(*first_) : ""});
  }
  return settled;
}

void Descriptions::forget() {
  first_.reset();
  told_ = false;
  waiting_.clear();
}

}  // namespace lockstep::launcher
