#include "tests/emulator/nccl/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/emulator/nccl/clique.h"

namespace emulator {
namespace {

struct All {
  std::mutex mutex;
  std::vector<std::weak_ptr<NcclConnection>> connections;
};

All& all() {
  static auto* instance = new All;
  return *instance;
}

bool read_all(int socket, void* to, size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* from, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t gone = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (gone < 0 && errno == EINTR) continue;
    if (gone <= 0) return false;
    at += gone;
    bytes -= static_cast<size_t>(gone);
  }
  return true;
}

/// An abstract socket name, which is not a file and disappears with its process.
struct Address {
  sockaddr_un name = {};
  socklen_t bytes = 0;

  explicit Address(pid_t process) {
    const std::string text = "tessera-emulated-nccl-" + std::to_string(process);
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

struct Listening {
  pid_t process = 0;  ///< a fork inherits its parent's
  int socket = -1;
};

Listening& listening() {
  static Listening instance;
  return instance;
}

}  // namespace

std::shared_ptr<NcclConnection> NcclConnection::start(int socket, Listener listener) {
  std::shared_ptr<NcclConnection> made(new NcclConnection(socket));
  {
    const std::lock_guard lock(all().mutex);
    std::erase_if(all().connections, [](const auto& old) { return old.expired(); });
    all().connections.push_back(made);
  }
  std::thread([made, listener] { made->read(listener); }).detach();
  std::thread([made] { made->write(); }).detach();
  return made;
}

NcclConnection::~NcclConnection() { ::close(socket_); }

void NcclConnection::send(NcclMessage message) {
  message.head.bytes = message.data.size();
  const std::lock_guard lock(mutex_);
  outbox_.push_back(std::move(message));
  changed_.notify_all();
}

void NcclConnection::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void NcclConnection::read(const Listener& listener) {
  NcclMessage message = {{NcclMessage::Kind::join}};
  while (read_all(socket_, &message.head, sizeof(message.head))) {
    message.data.resize(message.head.bytes);
    if (!read_all(socket_, message.data.data(), message.data.size())) break;
    listener(&message);
  }
  listener(nullptr);
  close();
}

void NcclConnection::write() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !outbox_.empty(); });
    if (outbox_.empty()) break;
    const NcclMessage& message = outbox_.front();
    lock.unlock();
    const bool written = write_all(socket_, &message.head, sizeof(message.head)) &&
                         write_all(socket_, message.data.data(), message.data.size());
    lock.lock();
    outbox_.pop_front();
    if (!written) break;
    changed_.notify_all();
  }
  broken_ = true;
  changed_.notify_all();
  ::shutdown(socket_, SHUT_WR);
}

void NcclConnection::flush() {
  constexpr auto kLimit = std::chrono::seconds(5);
  std::vector<std::shared_ptr<NcclConnection>> connections;
  {
    const std::lock_guard lock(all().mutex);
    for (const auto& connection : all().connections) {
      if (auto held = connection.lock()) connections.push_back(std::move(held));
    }
  }
  for (const auto& connection : connections) {
    std::unique_lock lock(connection->mutex_);
    connection->changed_.wait_for(
        lock, kLimit, [&] { return connection->broken_ || connection->outbox_.empty(); });
  }
}

void listen_for_nccl() {
  if (listening().process == ::getpid()) return;
  const Address address(::getpid());
  const int socket = new_socket();
  if (::bind(socket, address.get(), address.bytes) != 0 || ::listen(socket, SOMAXCONN) != 0) {
    nccl_fail("no socket for ranks of other processes");
  }
  listening() = {::getpid(), socket};
}

int accept_nccl() {
  if (listening().process != ::getpid()) return -1;
  pollfd waiting = {listening().socket, POLLIN, 0};
  if (::poll(&waiting, 1, 0) != 1) return -1;
  const int socket = ::accept4(listening().socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0 && errno != ECONNABORTED && errno != EINTR) {
    nccl_fail(std::string("no socket for a rank of another process: ") + std::strerror(errno));
  }
  return socket;
}

int connect_nccl(pid_t process) {
  const Address address(process);
  const int socket = new_socket();
  if (::connect(socket, address.get(), address.bytes) == 0) return socket;
  ::close(socket);
  return -1;
}

}  // namespace emulator
