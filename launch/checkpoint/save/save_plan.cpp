#include "launch/checkpoint/save/save_plan.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "core/error.h"
#include "launch/checkpoint/format/safetensors.h"

namespace tessera {

namespace {

Shape to_shape(const Json& list) {
  Shape shape;
  for (const int64_t extent : list.get<std::vector<int64_t>>()) shape.push_back(extent);
  return shape;
}

void require_valid(const LocalTensor& local) {
  require(local.kind == kModelKind || local.kind == kOptimizerKind,
          "the kind of {} must be \"model\" or \"optimizer\", but is {}", local.name,
          quote(local.kind));
  require(!local.name.empty() && local.name.size() <= kMaxJsonText,
          "a tensor's name must have 1 to {} bytes, but {} has {}", kMaxJsonText, quote(local.name),
          local.name.size());
  require(is_within(local.box, local.global_shape),
          "{} of shape {} has no box at offset {} of shape {}", local.name,
          to_string(local.global_shape), to_string(local.box.offset), to_string(local.box.shape));
  require_shape(local.data, local.box.shape, "save_checkpoint", local.name.c_str());
  const Device device = local.data.device();
  require(local.make ? device.is_meta() : !device.is_meta(), "{} must be on {}, but is {}",
          local.name, local.make ? "the meta device" : "the cpu or a GPU", describe(local.data));
}

// Whether a rank may have both under one name.
bool are_pieces_of_one(const LocalTensor& a, const LocalTensor& b) {
  return a.kind == b.kind && a.global_shape == b.global_shape && a.data.dtype() == b.data.dtype() &&
         a.box != b.box;
}

// A slice and the ranks that have it.
struct SliceHolders {
  PlannedSlice slice;
  int64_t bytes = 0;
  std::vector<size_t> holders;
};

// Collects the ranks' tensors, and which ranks have which slice.
class TensorOwners {
 public:
  void add(const Json& local, size_t rank) {
    const auto name = local.at("name").get<std::string>();
    const auto kind = local.at("kind").get<std::string>();
    const DType dtype = dtype_of_safetensors(local.at("dtype").get<std::string>(), name);
    const StoredTensor tensor{kind, dtype, to_shape(local.at("shape")), {}};
    const auto [known, added] = tensors.emplace(name, tensor);
    if (added) first_rank_[name] = rank;
    require_same(name, known->second, tensor, rank);
    const Box box{to_shape(local.at("offset")), to_shape(local.at("extent"))};
    if (box.shape.numel() == 0) return;
    auto& slices = known->second.slices;
    const auto same = std::find_if(slices.begin(), slices.end(),
                                   [&](const StoredSlice& other) { return other.box == box; });
    const auto index = static_cast<size_t>(same - slices.begin());
    if (same == slices.end()) slices.push_back({"", "", box, ""});
    SliceHolders& candidate = candidates_[{name, index}];
    candidate.slice = {name, index};
    candidate.bytes = *checked_bytes(box.shape, tensor.dtype);
    candidate.holders.push_back(rank);
  }

  void require_complete() const {
    for (const auto& [name, tensor] : tensors) {
      std::vector<Box> boxes;
      for (const StoredSlice& slice : tensor.slices) boxes.push_back(slice.box);
      require_tiling(boxes, tensor.shape, name);
    }
  }

  std::vector<SliceHolders> largest_first() const {
    std::vector<SliceHolders> all;
    for (const auto& [key, candidate] : candidates_) all.push_back(candidate);
    std::stable_sort(all.begin(), all.end(), [](const SliceHolders& a, const SliceHolders& b) {
      return a.bytes > b.bytes;
    });
    return all;
  }

  std::map<std::string, StoredTensor> tensors;

 private:
  void require_same(const std::string& name, const StoredTensor& known, const StoredTensor& tensor,
                    size_t rank) const {
    require(known.kind == tensor.kind && known.dtype == tensor.dtype && known.shape == tensor.shape,
            "{} is {} {} of kind {} on rank {}, but {} {} of kind {} on rank {}", name,
            to_string(known.dtype), to_string(known.shape), known.kind, first_rank_.at(name),
            to_string(tensor.dtype), to_string(tensor.shape), tensor.kind, rank);
  }

  std::map<std::string, size_t> first_rank_;
  std::map<std::pair<std::string, size_t>, SliceHolders> candidates_;
};

// The files of a rank that writes these slices. Larger dtypes come first, to align every slice to
// its dtype.
std::vector<PlannedFile> files_of(size_t rank, std::vector<PlannedSlice> slices,
                                  std::map<std::string, StoredTensor>& tensors) {
  std::sort(slices.begin(), slices.end(), [&](const PlannedSlice& a, const PlannedSlice& b) {
    const size_t size_a = size_of(tensors.at(a.tensor).dtype);
    const size_t size_b = size_of(tensors.at(b.tensor).dtype);
    if (size_a != size_b) return size_a > size_b;
    return std::tie(a.tensor, a.index) < std::tie(b.tensor, b.index);
  });
  std::map<std::string, int> slices_of;
  for (const PlannedSlice& planned : slices) ++slices_of[planned.tensor];
  std::vector<PlannedFile> files;
  for (const char* kind : {kModelKind, kOptimizerKind}) {
    PlannedFile file{fmt::format("{}_{:05}.safetensors", kind, rank), {}};
    for (const PlannedSlice& planned : slices) {
      StoredTensor& tensor = tensors.at(planned.tensor);
      if (tensor.kind != kind) continue;
      file.slices.push_back(planned);
      StoredSlice& slice = tensor.slices[planned.index];
      slice.file = file.name;
      slice.key = planned.tensor;
      if (slices_of[planned.tensor] > 1) slice.key += to_string(slice.box);
    }
    if (!file.slices.empty()) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

std::string describe_local_tensors(const std::vector<LocalTensor>& tensors) {
  Json list = Json::array();
  std::map<std::string, const LocalTensor*> first;
  for (const LocalTensor& local : tensors) {
    const auto [known, is_new] = first.emplace(local.name, &local);
    require(is_new || are_pieces_of_one(*known->second, local), "the tensor {} is given twice",
            local.name);
    require_valid(local);
    list.push_back({{"name", local.name},
                    {"kind", local.kind},
                    {"dtype", safetensors_name(local.data.dtype())},
                    {"shape", to_list(local.global_shape)},
                    {"offset", to_list(local.box.offset)},
                    {"extent", to_list(local.box.shape)}});
  }
  return to_text(list);
}

int64_t largest_share(std::vector<int64_t> slice_bytes, int ranks) {
  std::sort(slice_bytes.begin(), slice_bytes.end(), std::greater<>());
  std::vector<int64_t> of_rank(static_cast<size_t>(ranks), 0);
  for (const int64_t bytes : slice_bytes) *std::ranges::min_element(of_rank) += bytes;
  return *std::ranges::max_element(of_rank);
}

SavePlan plan_save(const std::vector<std::string>& tensors_of_rank) {
  const size_t ranks = tensors_of_rank.size();
  TensorOwners holdings;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::string source = fmt::format("the list of the tensors of rank {}", rank);
    for (const Json& local : parse_json(tensors_of_rank[rank], source)) holdings.add(local, rank);
  }
  holdings.require_complete();
  std::vector<std::vector<PlannedSlice>> slices_of_rank(ranks);
  std::vector<int64_t> bytes_of_rank(ranks, 0);
  for (const SliceHolders& candidate : holdings.largest_first()) {
    const size_t writer =
        *std::min_element(candidate.holders.begin(), candidate.holders.end(),
                          [&](size_t a, size_t b) { return bytes_of_rank[a] < bytes_of_rank[b]; });
    bytes_of_rank[writer] += candidate.bytes;
    slices_of_rank[writer].push_back(candidate.slice);
  }
  SavePlan plan;
  plan.tensors = std::move(holdings.tensors);
  for (size_t rank = 0; rank < ranks; ++rank) {
    plan.files_of_rank.push_back(files_of(rank, std::move(slices_of_rank[rank]), plan.tensors));
  }
  return plan;
}

}  // namespace tessera
