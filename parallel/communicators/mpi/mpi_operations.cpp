#include "parallel/communicators/mpi/mpi_operations.h"

#include <string_view>

#include "core/error.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

template <DType dtype, ReduceOp op>
void reduce_pair(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  const void* inputs[] = {in, in_out};
  reduce_elements(dtype, op, inputs, {&in_out, 1}, *count);
}

void create(MPI_User_function* function, MPI_Op& op) {
  check_mpi(MPI_Op_create(function, /*commute=*/1, &op), "MPI_Op_create");
}

}  // namespace

void check_mpi(int code, const char* operation) {
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

int mpi_rank(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int mpi_size(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

MPI_Datatype mpi_datatype(DType dtype) {
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

MpiOperations::MpiOperations() {
  create(reduce_pair<DType::bf16, ReduceOp::sum>, sum_bf16_);
  create(reduce_pair<DType::bf16, ReduceOp::max>, max_bf16_);
  create(reduce_pair<DType::f32, ReduceOp::max>, max_f32_);
  create(reduce_pair<DType::f64, ReduceOp::max>, max_f64_);
}

MpiOperations::~MpiOperations() {
  if (mpi_is_finalized()) return;
  for (MPI_Op* op : {&sum_bf16_, &max_bf16_, &max_f32_, &max_f64_}) MPI_Op_free(op);
}

MPI_Op MpiOperations::get(DType dtype, ReduceOp op) const {
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

}  // namespace tessera
