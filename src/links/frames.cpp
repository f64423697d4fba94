#include "links/frames.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/errors.h"

namespace lockstep::links {
namespace {

// Where frames go that nobody wants; what it has in it means nothing.
std::array<std::byte, 64 * 1024>& bin() {
  thread_local std::array<std::byte, 64 * 1024> bytes;
  return bytes;
}

}  // namespace

Outbox::Frame Outbox::frame_of(std::string_view header, std::size_t body_bytes) {
  assert(header.size() <= kMostHeaderBytes && body_bytes <= kMostBodyBytes);
  Frame frame;
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(header.size()),
                                 static_cast<std::uint32_t>(body_bytes)};
  std::memcpy(frame.head.data(), sizes, sizeof sizes);
  header.copy(frame.head.data() + sizeof sizes, header.size());
  frame.head_bytes = sizeof sizes + header.size();
  return frame;
}

void Outbox::push(Frame frame) {
  unsent_ += frame.bytes();
  frames_.push_back(std::move(frame));
}

void Outbox::add(std::string_view header, std::span<const std::byte> body) {
  Frame frame = frame_of(header, body.size());
  frame.lent = body;
  push(std::move(frame));
}

void Outbox::add(std::string_view header, std::string body) {
  Frame frame = frame_of(header, body.size());
  frame.own = std::move(body);
  push(std::move(frame));
}

void Outbox::add_ping() {
  Frame frame = frame_of({}, 0);
  unsent_ += frame.bytes();
  frames_.insert(frames_.begin() + (begun_ > 0 ? 1 : 0), std::move(frame));
}

std::size_t Outbox::gather(std::span<iovec> pieces) const {
  std::size_t filled = 0, skip = begun_;
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (bytes > skipped)
      pieces[filled++] = {static_cast<char*>(const_cast<void*>(data)) + skipped, bytes - skipped};
  };
  for (const Frame& frame : frames_) {
    if (filled + 2 > pieces.size()) break;
    add(frame.head.data(), frame.head_bytes);
    add(frame.body().data(), frame.body().size());
  }
  return filled;
}

void Outbox::sent(std::size_t bytes) {
  assert(bytes <= unsent_);
  unsent_ -= bytes;
  begun_ += bytes;
  while (!frames_.empty() && begun_ >= frames_.front().bytes()) {
    begun_ -= frames_.front().bytes();
    frames_.pop_front();
  }
}

std::array<iovec, 2> Inbox::room() {
  const iovec stage{stage_.data() + end_, stage_.size() - end_};
  if (!in_body_) return {stage, iovec{}};
  if (to_ != nullptr) return {iovec{to_, left_}, stage};
  if (left_ > bin().size()) return {iovec{bin().data(), bin().size()}, iovec{}};
  return {iovec{bin().data(), left_}, stage};
}

// While a body is in hand nothing is staged.
Status Inbox::take(std::size_t bytes, Sink& sink) {
  if (in_body_) {
    const std::size_t body = std::min(bytes, left_);
    left_ -= body;
    if (to_ != nullptr) to_ += body;
    bytes -= body;
  }
  end_ += bytes;
  return parse(sink);
}

Status Inbox::parse(Sink& sink) {
  for (;;) {
    if (in_body_) {
      feed_body({stage_.data() + begin_, end_ - begin_});
      if (left_ > 0) break;
      in_body_ = false;
      const std::string header = header_;
      LOCKSTEP_TRY(sink.landed(header));
    }
    const std::size_t there = end_ - begin_;
    if (there < kLengthBytes) break;
    std::uint32_t sizes[2];
    std::memcpy(sizes, stage_.data() + begin_, sizeof sizes);
    const auto [header_bytes, body_bytes] = sizes;
    if (header_bytes == 0 && body_bytes == 0) {
      begin_ += kLengthBytes;
      continue;
    }
    if (header_bytes == 0 || header_bytes > kMostHeaderBytes || body_bytes > kMostBodyBytes)
      return bad_data("a frame says a header of " + std::to_string(header_bytes) +
                      " bytes and a body of " + std::to_string(body_bytes) + "; the most are " +
                      std::to_string(kMostHeaderBytes) + " and " + std::to_string(kMostBodyBytes));
    if (there < kLengthBytes + header_bytes) break;
    header_.assign(reinterpret_cast<const char*>(stage_.data() + begin_ + kLengthBytes),
                   header_bytes);
    begin_ += kLengthBytes + header_bytes;
    LOCKSTEP_TRY(begin(sink, body_bytes));
  }
  std::memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  return {};
}

Status Inbox::begin(Sink& sink, std::size_t bytes) {
  const auto place = sink.landing(header_, bytes);
  if (!place.ok()) return place.error();
  assert(!*place || (*place)->size() == bytes);
  in_body_ = true;
  left_ = bytes;
  to_ = *place ? (*place)->data() : nullptr;
  return {};
}

void Inbox::feed_body(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), left_);
  if (to_ != nullptr && count > 0) {
    std::memcpy(to_, bytes.data(), count);
    to_ += count;
  }
  left_ -= count;
  begin_ += count;
}

}  // namespace lockstep::links
