#include "base/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace lockstep {
namespace {

// More than a pipe holds, to a reader that takes little at a time: many writes.
TEST(WriteAll, IsDoneWhenAllIsWritten) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::string sent(300'000, ' '), got;
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 23);
  std::thread reader([&] {
    std::array<char, 1000> piece{};
    for (ssize_t n = 0; (n = ::read(from.get(), piece.data(), piece.size())) > 0;)
      got.append(piece.data(), static_cast<std::size_t>(n));
  });
  EXPECT_TRUE(write_all(to.get(), sent).ok());
  to.reset();
  reader.join();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(write_all(-1, "").ok());
}

TEST(WriteAll, SaysWhyItCouldNot) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const Status status = write_all(full.get(), "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(status.error().kind, ErrorKind::kDisk);
  EXPECT_EQ(status.error().message, "No space left on device");
}

}  // namespace
}  // namespace lockstep
