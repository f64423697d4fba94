// Anything on the launcher's two sockets, the control socket of a run directory and the door of a
// run that is started by hand: any messages, with and without descriptors, from clients that hang
// up at any moment. Afterwards a proper question is answered.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "base/deadline.h"
#include "base/json.h"
#include "base/loop.h"
#include "coord/channel.h"
#include "coord/messages.h"
#include "launcher/by_hand/arrivals.h"
#include "launcher/linked/run_directory.h"
#include "require.h"
#include "rundir/lock.h"

using namespace lockstep;
using namespace lockstep::launcher;
using namespace std::chrono_literals;

namespace {

// A socket that listens at `path`; for the door, which is handed one.
UniqueFd listener_at(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  require(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  require(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  require(::listen(socket.get(), 8) == 0);
  return socket;
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  require(::connect(socket.get(), name, sizeof address) == 0);
  return socket;
}

// A launcher without a run: it answers with what it was asked, and fails at each third question.
class Host {
 public:
  Host() {
    std::string name = "/tmp/fuzz-questions-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    auto loop = Loop::open();
    require(loop.ok());
    loop_.emplace(std::move(*loop));
    auto lock = rundir::lock_run_directory(folder_ + "/run", Deadline::in(0s));
    require(lock.ok());
    auto directory = RunDirectory::open(
        folder_ + "/run", std::move(*lock), *loop_,
        [this](const coord::Message& question, const RunDirectory::Answer& answer) {
          if (++asked_ % 3 == 0) throw std::runtime_error("it broke");
          const auto text = coord::encode(question);
          const std::string bytes =
              text.ok() ? std::string(reinterpret_cast<const char*>(text->data()), text->size())
                        : text.error().message;
          answer({true, json_text(nlohmann::json{{"asked", bytes}})});
        });
    require(directory.ok());
    directory_ = std::move(*directory);
    attached_.listener = listener_at(door());
    attached_.workers = 3;
    attached_.host = "127.0.0.1";
    auto arrivals = Arrivals::open(attached_, *loop_, [this](Arrival&) -> Result<bool> {
      if (++seated_ % 3 == 0) return Error{ErrorKind::kUsage, "the place is taken"};
      return seated_ % 3 == 1;
    });
    require(arrivals.ok());
    arrivals_ = std::move(*arrivals);
  }
  ~Host() {
    arrivals_.reset();
    directory_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string control() const { return folder_ + "/run/" + kControlSocket; }
  std::string door() const { return folder_ + "/door"; }
  void run() {
    loop_->run_once(Deadline::in(0s));
    arrivals_->look();
    directory_->look();
  }
  void answers() {
    const UniqueFd client = connect_to(control());
    require(coord::send(client.get(), coord::message::StatusQuery{}, Deadline::in(0s)).ok());
    for (int i = 0; i < 200; ++i) {
      run();
      const auto reply = coord::receive(client.get(), Deadline::in(0s));
      if (!reply.ok()) continue;
      require(std::holds_alternative<coord::message::Reply>(reply->message));
      return;
    }
    std::abort();
  }

 private:
  std::string folder_;
  std::optional<Loop> loop_;
  std::unique_ptr<RunDirectory> directory_;
  Attached attached_;
  std::unique_ptr<Arrivals> arrivals_;
  int asked_ = 0, seated_ = 0;
};

void send_raw(int socket, std::string_view packet, bool with_descriptors) {
  iovec part{const_cast<char*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  static const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  const std::array<int, 3> fds{self, STDERR_FILENO, STDERR_FILENO};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  if (with_descriptors) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  }
  (void)::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

// The first byte says where (bit 0), and whether the client stays (bit 1); then each packet has a
// byte for its length (low six bits), descriptors (bit 6) and a pause for the launcher (bit 7).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Host host;
  if (size == 0) return 0;
  const std::uint8_t flags = data[0];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  UniqueFd client = connect_to((flags & 1) != 0 ? host.door() : host.control());
  while (!rest.empty()) {
    const auto head = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    const std::string_view packet = rest.substr(0, head & 63U);
    rest.remove_prefix(packet.size());
    send_raw(client.get(), packet, (head & 64U) != 0);
    if ((head & 128U) != 0) host.run();
  }
  if ((flags & 2) == 0) client.reset();
  host.run();
  host.answers();
  return 0;
}
