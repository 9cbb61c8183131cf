#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/memory.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_threads.h"
#include "parallel/process_grid.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr std::array kDTypes = {DType::f32, DType::bf16, DType::f64,
                                DType::i32, DType::i64,  DType::u8};

using test::error_of;

// --- groups

int sum_over(Communicator& group, int value) {
  OwnedTensor owned({1}, DType::i32);
  owned.tensor.data<int32_t>()[0] = value;
  group.all_reduce(owned.tensor);
  return owned.tensor.data<int32_t>()[0];
}

void split_orders_by_key(Communicator& group) {
  const auto reversed = group.split(-3, -group.rank());
  EXPECT_EQ(reversed->size(), group.size());
  EXPECT_EQ(reversed->rank(), group.size() - 1 - group.rank());
  EXPECT_EQ(reversed->name(), group.name());
  const auto same = group.split(0, 0);
  EXPECT_EQ(same->rank(), group.rank()) << "equal keys keep the order";
  const auto alone = group.split(group.rank() - 1, 0);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(sum_over(*alone, 5), 5);
}

void split_makes_groups_that_do_not_meet(Communicator& group) {
  const int parity = group.rank() % 2;
  const auto half = group.split(parity == 0 ? std::numeric_limits<int>::min() : 1000, 0);
  int expected = 0;
  for (int rank = parity; rank < group.size(); rank += 2) expected += 1 << rank;
  EXPECT_EQ(sum_over(*half, 1 << group.rank()), expected) << who(group);
  // The halves run different numbers of collectives, and each is split again.
  for (int i = 0; i < 3 + parity; ++i) half->barrier();
  const auto quarter = half->split(half->rank() % 2, -half->rank());
  int members = 0;
  for (int rank = half->rank() % 2; rank < half->size(); rank += 2) members += 1;
  EXPECT_EQ(sum_over(*quarter, 1), members) << who(group);
  group.barrier();
}

void groups_of_a_grid(Communicator& group) {
  for (int tensor = 1; tensor <= group.size(); ++tensor) {
    if (group.size() % tensor != 0) continue;
    const ParallelGroups groups = make_parallel_groups(group, {.tensor = tensor});
    const auto ranks_along = [&](Axis axis) { return groups.grid.group_of(group.rank(), {axis}); };
    EXPECT_EQ(groups.tp->size(), tensor);
    EXPECT_EQ(groups.tp->rank(), group.rank() % tensor);
    EXPECT_EQ(groups.dp->size(), group.size() / tensor);
    EXPECT_EQ(groups.dp->rank(), group.rank() / tensor);
    const OwnedTensor mine = filled<float>(1001, group.rank());
    const auto pending = groups.dp->all_reduce_async(mine.tensor);
    int expected = 0;
    for (const int rank : ranks_along(Axis::tensor)) expected += 1 << rank;
    EXPECT_EQ(sum_over(*groups.tp, 1 << group.rank()), expected) << who(group);
    pending->wait();
    int factor = 0;
    for (const int rank : ranks_along(Axis::data)) factor += rank + 1;
    expect_elements<float>(
        mine.tensor, [&](int64_t i) { return factor * value_of(0, i); }, who(group));
  }
}

// --- arguments

void wrong_arguments_are_named(Communicator& group) {
  const OwnedTensor three({3}, DType::f32);
  const OwnedTensor wrong({3 * group.size() + 1}, DType::f32);
  const OwnedTensor gathered_i32({3 * group.size()}, DType::i32);
  const OwnedTensor block({8, group.size()}, DType::f32);

  EXPECT_THAT(error_of([&] { group.all_reduce(Tensor()); }), HasSubstr("all_reduce: tensor"));
  EXPECT_THAT(error_of([&] { group.all_gather(three.tensor, wrong.tensor); }),
              HasSubstr(fmt::format("{} × 3 = {} elements", group.size(), 3 * group.size())));
  EXPECT_THAT(error_of([&] { group.all_gather(three.tensor, gathered_i32.tensor); }),
              HasSubstr("output is int32"));
  EXPECT_THAT(error_of([&] { group.reduce_scatter(wrong.tensor, three.tensor); }),
              HasSubstr("reduce_scatter: output is fp32 (3)"));
  EXPECT_THAT(error_of([&] {
                const Tensor all = block.tensor.slice(0, 4);
                group.all_gather(block.tensor.view({8 * group.size()}).slice(1, 5), all);
              }),
              HasSubstr("overlap"));
  EXPECT_THAT(error_of([&] { (void)group.reduce_scatter_async(block.tensor, three.tensor); }),
              HasSubstr("reduce_scatter_async: output is fp32 (3)"));
  EXPECT_THAT(error_of([&] { group.broadcast(three.tensor, group.size()); }),
              HasSubstr(fmt::format("root is {0}, but the ranks of this group are 0 to {1}",
                                    group.size(), group.size() - 1)));
  const Tensor meta(nullptr, {3 * group.size()}, DType::f32, kMeta);
  EXPECT_THAT(error_of([&] { group.all_gather(three.tensor, meta); }), HasSubstr("on meta"));
  const Tensor lost(nullptr, {3}, DType::f32, kCpu);
  EXPECT_THAT(error_of([&] { group.all_reduce(lost); }), HasSubstr("has no data"));
}

void meta_and_empty_tensors_need_no_other_rank(Communicator& group) {
  if (group.rank() != 0) return;
  for (const DType dtype : kDTypes) {
    const Tensor meta(nullptr, {3}, dtype, kMeta);
    const Tensor meta_all(nullptr, {group.size(), 3}, dtype, kMeta);
    const Tensor empty(nullptr, {0, 3}, dtype, kCpu);
    group.all_reduce(meta);
    EXPECT_TRUE(group.all_reduce_async(meta)->progress());
    group.all_gather(meta, meta_all);
    group.reduce_scatter(meta_all, meta);
    EXPECT_TRUE(group.all_gather_async(meta, meta_all)->progress());
    EXPECT_TRUE(group.reduce_scatter_async(meta_all, meta)->progress());
    group.broadcast(meta, group.size() - 1);
    for (const Tensor& tensor : {meta, empty}) {
      const Communicator::Message message = Communicator::Message::recv(tensor, group.size() - 1);
      if (group.size() > 1 || tensor.numel() == 0) group.exchange({&message, 1});
    }
    group.all_reduce(empty);
    group.all_reduce_async(empty, ReduceOp::max)->wait();
    group.all_gather(empty, empty);
    const Tensor wrong(nullptr, {group.size(), 4}, dtype, kMeta);
    EXPECT_THROW(group.all_gather(meta, wrong), Error) << "arguments are checked in any case";
  }
}

// --- texts and errors

void strings_travel(Communicator& group) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<size_t>(rank) * 3, 'a') + std::string(1, '\0');
  };
  const std::vector<std::string> texts = all_gather_strings(group, text_of(group.rank()));
  EXPECT_EQ(texts.size(), static_cast<size_t>(group.size()));
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
    EXPECT_EQ(broadcast_string(group, text_of(group.rank()), rank), text_of(rank));
  }
  const int root = group.size() - 1;
  EXPECT_EQ(gather_strings(group, text_of(group.rank()), root),
            group.rank() == root ? texts : std::vector<std::string>());
  EXPECT_EQ(gather_strings(group, "", 0).size(), group.rank() == 0 ? texts.size() : 0);
  EXPECT_EQ(all_gather_strings(group, ""), std::vector<std::string>(texts.size()));
  EXPECT_EQ(broadcast_string(group, "", 0), "");
}

void an_error_of_one_rank_is_one_of_all(Communicator& group) {
  EXPECT_NO_THROW(raise_on_all(group, {}));
  const int last = group.size() - 1;
  const std::string one =
      error_of([&] { raise_on_all(group, {group.rank() == last ? "no such file" : ""}); });
  EXPECT_EQ(one, group.size() == 1 ? "no such file"
                                   : fmt::format("rank {} of {}: no such file", last, last + 1));

  const std::string all =
      error_of([&] { all_or_none(group, [&] { fail("rank {} has no memory", group.rank()); }); });
  EXPECT_EQ(all, group.size() == 1
                     ? "rank 0 has no memory"
                     : fmt::format("all {} ranks, of which the first: rank 0 has no memory",
                                   group.size()));
  EXPECT_EQ(error_of([&] { all_or_none(group, [] { fail("no such file"); }); }), "no such file")
      << "an error of all ranks names no rank";
  if (group.size() >= 4) {
    EXPECT_EQ(error_of([&] { raise_on_all(group, {group.rank() % 3 == 0 ? "" : "late"}); }),
              fmt::format("ranks {} of {}, of which the first: late",
                          group.size() == 4 ? "1, 2" : "1, 2, 4, 5", group.size()));
  }
  EXPECT_EQ(
      error_of([&] {
        all_or_none(group, [&] {
          if (group.rank() == last) fail("the cable is loose");
          throw PeerError("a peer is gone");
        });
      }),
      one.substr(0, one.size() - std::string_view("no such file").size()) + "the cable is loose");
  try {
    all_or_none(group, [&] {
      with_exit_code(ExitCode::data, [&] {
        if (group.rank() == last) fail("a file is damaged");
      });
    });
    ADD_FAILURE() << "no error was thrown";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::data) << "the code of one rank is that of all";
  }
  bool ran = false;
  EXPECT_NO_THROW(all_or_none(group, [&] { ran = true; }));
  EXPECT_TRUE(ran);
}

void threads_of_the_host_are_shared(Communicator& group) {
  const HostThreads chosen = apply_host_threads(group);
  EXPECT_GE(chosen.threads, 1);
  EXPECT_THAT(chosen.summary, HasSubstr(fmt::format("{} thread{} (", chosen.threads,
                                                    chosen.threads == 1 ? "" : "s")));
}

}  // namespace

std::vector<CommunicatorCase> group_cases() {
  return {
      {"split_orders_by_key", split_orders_by_key},
      {"split_makes_groups_that_do_not_meet", split_makes_groups_that_do_not_meet},
      {"groups_of_a_grid", groups_of_a_grid},
      {"wrong_arguments_are_named", wrong_arguments_are_named},
      {"meta_and_empty_tensors_need_no_other_rank", meta_and_empty_tensors_need_no_other_rank},
      {"strings_travel", strings_travel},
      {"an_error_of_one_rank_is_one_of_all", an_error_of_one_rank_is_one_of_all},
      {"threads_of_the_host_are_shared", threads_of_the_host_are_shared},
  };
}

}  // namespace tessera
