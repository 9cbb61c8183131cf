#include "parallel/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "parallel/mpi_launch.h"
#include "parallel/reduce.h"

namespace tessera {
namespace {

void check(int code, const char* operation) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{} failed: {}", operation, std::string_view(text, static_cast<size_t>(length)));
}

bool mpi_is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

MPI_Datatype datatype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

template <DType dtype, ReduceOp op>
void reduce_pair(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  const void* inputs[] = {in, in_out};
  reduce_elements(dtype, op, inputs, {&in_out, 1}, *count);
}

void* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(element) * size_of(tensor.dtype());
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace

// The reductions that MPI lacks: all of bf16, and maxima in which a NaN stays.
class MpiOperations {
 public:
  MpiOperations() {
    create(reduce_pair<DType::bf16, ReduceOp::sum>, sum_bf16_);
    create(reduce_pair<DType::bf16, ReduceOp::max>, max_bf16_);
    create(reduce_pair<DType::f32, ReduceOp::max>, max_f32_);
    create(reduce_pair<DType::f64, ReduceOp::max>, max_f64_);
  }
  MpiOperations(const MpiOperations&) = delete;
  MpiOperations& operator=(const MpiOperations&) = delete;
  ~MpiOperations() {
    if (mpi_is_finalized()) return;
    for (MPI_Op* op : {&sum_bf16_, &max_bf16_, &max_f32_, &max_f64_}) MPI_Op_free(op);
  }

  MPI_Op get(DType dtype, ReduceOp op) const {
    const bool sum = op == ReduceOp::sum;
    switch (dtype) {
      case DType::bf16:
        return sum ? sum_bf16_ : max_bf16_;
      case DType::f32:
        return sum ? MPI_SUM : max_f32_;
      case DType::f64:
        return sum ? MPI_SUM : max_f64_;
      default:
        return sum ? MPI_SUM : MPI_MAX;
    }
  }

 private:
  static void create(MPI_User_function* function, MPI_Op& op) {
    check(MPI_Op_create(function, /*commute=*/1, &op), "MPI_Op_create");
  }

  MPI_Op sum_bf16_ = MPI_OP_NULL;
  MPI_Op max_bf16_ = MPI_OP_NULL;
  MPI_Op max_f32_ = MPI_OP_NULL;
  MPI_Op max_f64_ = MPI_OP_NULL;
};

namespace {

class MpiPending final : public PendingCollective {
 public:
  MpiPending() = default;
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;

  ~MpiPending() override {
    if (std::uncaught_exceptions() == exceptions_) {
      MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE);
      return;
    }
    // The other ranks may wait for this one and so never take part. The exception is on its way to
    // MpiRuntime::abort(), which a wait without end would keep from ending them.
    constexpr auto kGrace = std::chrono::seconds(2);
    const auto deadline = std::chrono::steady_clock::now() + kGrace;
    int done = 0;
    while (MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
           done == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  void wait() override {
    check(MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE), "all_reduce_async");
  }

  bool progress() override {
    int done = 0;
    check(MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE), "all_reduce_async");
    return done != 0;
  }

 private:
  int count() const { return static_cast<int>(requests_.size()); }

  std::vector<MPI_Request> requests_;
  int exceptions_ = std::uncaught_exceptions();
};

class MpiCommunicator final : public Communicator {
 public:
  /// Owns `comm`.
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<const MpiOperations> operations, int64_t max_count)
      : Communicator(rank_in(comm), size_of(comm)),
        comm_(comm),
        operations_(std::move(operations)),
        max_count_(max_count) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  ~MpiCommunicator() override {
    // Freeing is collective: where an exception passes, the other ranks may not take part.
    if (!mpi_is_finalized() && std::uncaught_exceptions() == exceptions_) MPI_Comm_free(&comm_);
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    // MPI takes no negative colors, so they are numbered.
    std::vector<int> colors(static_cast<size_t>(size()));
    check(MPI_Allgather(&color, 1, MPI_INT, colors.data(), 1, MPI_INT, comm_), "split");
    std::sort(colors.begin(), colors.end());
    const auto unique_end = std::unique(colors.begin(), colors.end());
    const auto place = std::lower_bound(colors.begin(), unique_end, color) - colors.begin();
    MPI_Comm group = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, static_cast<int>(place), key, &group), "split");
    return std::make_unique<MpiCommunicator>(group, operations_, max_count_);
  }

  std::string name() const override { return "mpi"; }

 private:
  // Calls body(first element, count) for pieces of [0, n) that one MPI call can take.
  template <typename Body>
  void in_pieces(int64_t n, Body&& body) const {
    for (int64_t begin = 0; begin < n; begin += max_count_) {
      body(begin, static_cast<int>(std::min(max_count_, n - begin)));
    }
  }

  void do_all_reduce(Tensor tensor, ReduceOp op) override {
    const DType dtype = tensor.dtype();
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, at(tensor, begin), count, datatype(dtype),
                          operations_->get(dtype, op), comm_),
            "all_reduce");
    });
  }

  std::unique_ptr<PendingCollective> do_all_reduce_async(Tensor tensor, ReduceOp op) override {
    auto pending = std::make_unique<MpiPending>();
    const DType dtype = tensor.dtype();
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check(MPI_Iallreduce(MPI_IN_PLACE, at(tensor, begin), count, datatype(dtype),
                           operations_->get(dtype, op), comm_, pending->add()),
            "all_reduce_async");
    });
    return pending;
  }

  void do_all_gather(const Tensor& input, Tensor output) override {
    const int64_t part = input.numel();
    const MPI_Datatype type = datatype(input.dtype());
    if (output.numel() <= max_count_) {
      const int count = static_cast<int>(part);
      check(MPI_Allgather(input.raw(), count, type, output.raw(), count, type, comm_),
            "all_gather");
      return;
    }
    std::memcpy(at(output, rank() * part), input.raw(), input.bytes());
    for (int root = 0; root < size(); ++root) {
      in_pieces(part, [&](int64_t begin, int count) {
        check(MPI_Bcast(at(output, root * part + begin), count, type, root, comm_), "all_gather");
      });
    }
  }

  void do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op) override {
    const int64_t part = output.numel();
    const MPI_Datatype type = datatype(output.dtype());
    const MPI_Op operation = operations_->get(output.dtype(), op);
    if (input.numel() <= max_count_) {
      check(MPI_Reduce_scatter_block(input.raw(), output.raw(), static_cast<int>(part), type,
                                     operation, comm_),
            "reduce_scatter");
      return;
    }
    for (int root = 0; root < size(); ++root) {
      in_pieces(part, [&](int64_t begin, int count) {
        check(MPI_Reduce(at(input, root * part + begin), at(output, begin), count, type, operation,
                         root, comm_),
              "reduce_scatter");
      });
    }
  }

  void do_broadcast(Tensor tensor, int root) override {
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check(MPI_Bcast(at(tensor, begin), count, datatype(tensor.dtype()), root, comm_),
            "broadcast");
    });
  }

  void do_send(const Tensor& tensor, int destination) override {
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      check(MPI_Send(at(tensor, begin), count, datatype(tensor.dtype()), destination, kTag, comm_),
            "send");
    });
  }

  void do_recv(Tensor tensor, int source) override {
    in_pieces(tensor.numel(), [&](int64_t begin, int count) {
      MPI_Status status;
      const MPI_Datatype type = datatype(tensor.dtype());
      check(MPI_Recv(at(tensor, begin), count, type, source, kTag, comm_, &status), "recv");
      int received = 0;
      check(MPI_Get_count(&status, type, &received), "recv");
      require(received == count, "recv: rank {} sent fewer elements than rank {} receives ({})",
              source, rank(), describe(tensor));
    });
  }

  void do_barrier() override { check(MPI_Barrier(comm_), "barrier"); }

  static constexpr int kTag = 0;

  MPI_Comm comm_;
  std::shared_ptr<const MpiOperations> operations_;
  int64_t max_count_;
  int exceptions_ = std::uncaught_exceptions();
};

// Ranks that a foreign launcher started would each be a whole run of one rank, all in one folder.
void check_launch() {
  const auto launch = find_mpi_launch([](const char* name) { return std::getenv(name); });
  const int size = size_of(MPI_COMM_WORLD);
  require(!launch || launch->ranks.value_or(size) == size,
          "{} says that {} ranks were started, but the MPI library sees {}: start Tessera with the "
          "mpirun of the MPI that it was built with (with Slurm: srun --mpi=pmix or --mpi=pmi2)",
          launch ? launch->variable : "", launch ? launch->ranks.value_or(size) : size, size);
}

}  // namespace

MpiRuntime::MpiRuntime() : exceptions_(std::uncaught_exceptions()) {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require(provided >= MPI_THREAD_SERIALIZED,
          "the MPI library can not be called by more than one thread, not even in turn: use one "
          "that was built with thread support (MPI_THREAD_SERIALIZED)");
  check_launch();
  operations_ = std::make_shared<const MpiOperations>();
  world_ = duplicate_world();
}

MpiRuntime::~MpiRuntime() {
  if (std::uncaught_exceptions() > exceptions_) abort("ended by an exception");
  world_.reset();
  operations_.reset();
  MPI_Finalize();
}

void MpiRuntime::abort(std::string_view message) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // One write a message: those of several ranks do not mix within a line.
  const std::string text = fmt::format("tessera: rank {}: {}\n", rank, message);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

std::unique_ptr<Communicator> MpiRuntime::duplicate_world(int64_t max_count) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(comm, operations_, max_count);
}

}  // namespace tessera
