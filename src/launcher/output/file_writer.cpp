#include "launcher/output/file_writer.h"

#include <chrono>
#include <utility>

#include "base/write_all.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kLate = 5s;

}  // namespace

FileWriter::FileWriter(UniqueFd file, Background& disk, Took took)
    : file_(std::move(file)), disk_(disk), took_(std::move(took)) {}

void FileWriter::write(std::string_view data) {
  waiting_ += data;
  if (!busy() && !waiting_.empty()) begin();
}

void FileWriter::begin() {
  in_flight_ = waiting_.size();
  late_ = Deadline::in(kLate);
  told_late_ = false;
  disk_.run([self = shared_from_this(),
             data = std::exchange(waiting_, {})] { return write_all(self->file_.get(), data); },
            [self = shared_from_this()](const Status& status) {
              self->in_flight_ = 0;
              if (!self->waiting_.empty()) self->begin();
              self->took_(status);
            });
}

bool FileWriter::is_late() { return busy() && late_.passed() && !std::exchange(told_late_, true); }

}  // namespace lockstep::launcher
