// The layout of the public structures is frozen: compiling this file is most of the test. A change here
// needs a new field at the end of a structure instead.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "scalegemm/scalegemm.h"

#define FIELD_AT(structure, field, offset) \
  static_assert(offsetof(structure, field) == (offset), "the ABI of " #structure " changed at " #field)

FIELD_AT(scalegemm_scale_desc, zero_dtype, 4);
FIELD_AT(scalegemm_scale_desc, block_rows, 8);
FIELD_AT(scalegemm_scale_desc, block_k, 16);
FIELD_AT(scalegemm_scale_desc, has_global, 24);
static_assert(sizeof(scalegemm_scale_desc) == 32);
FIELD_AT(scalegemm_operand_desc, layout, 4);
FIELD_AT(scalegemm_operand_desc, scale, 8);
static_assert(sizeof(scalegemm_operand_desc) == 40);
FIELD_AT(scalegemm_problem, m, 8);
FIELD_AT(scalegemm_problem, batch, 32);
FIELD_AT(scalegemm_problem, a, 40);
FIELD_AT(scalegemm_problem, b, 80);
FIELD_AT(scalegemm_problem, d_dtype, 120);
FIELD_AT(scalegemm_problem, b_packing, 124);
FIELD_AT(scalegemm_problem, bias_dtype, 128);
FIELD_AT(scalegemm_problem, c_dtype, 132);
FIELD_AT(scalegemm_problem, activation, 136);
FIELD_AT(scalegemm_problem, accuracy, 140);
FIELD_AT(scalegemm_problem, batch_invariant, 144);
FIELD_AT(scalegemm_problem, has_clamp, 148);
FIELD_AT(scalegemm_problem, clamp_min, 152);
FIELD_AT(scalegemm_problem, clamp_max, 156);
static_assert(sizeof(scalegemm_problem) == 160);
FIELD_AT(scalegemm_tensor, bytes, 8);
FIELD_AT(scalegemm_tensor, dtype, 16);
FIELD_AT(scalegemm_tensor, shape, 24);
FIELD_AT(scalegemm_tensor, stride, 48);
static_assert(sizeof(scalegemm_tensor) == 72);
FIELD_AT(scalegemm_run_args, a, 8);
FIELD_AT(scalegemm_run_args, b, 80);
FIELD_AT(scalegemm_run_args, packed_b, 152);
FIELD_AT(scalegemm_run_args, scale_a, 160);
FIELD_AT(scalegemm_run_args, zero_a, 232);
FIELD_AT(scalegemm_run_args, scale_b, 304);
FIELD_AT(scalegemm_run_args, zero_b, 376);
FIELD_AT(scalegemm_run_args, global_a, 448);
FIELD_AT(scalegemm_run_args, global_b, 456);
FIELD_AT(scalegemm_run_args, c, 464);
FIELD_AT(scalegemm_run_args, bias, 536);
FIELD_AT(scalegemm_run_args, d, 608);
FIELD_AT(scalegemm_run_args, alpha, 680);
FIELD_AT(scalegemm_run_args, beta, 684);
FIELD_AT(scalegemm_run_args, workspace, 688);
FIELD_AT(scalegemm_run_args, workspace_bytes, 696);
FIELD_AT(scalegemm_run_args, stream, 704);
static_assert(sizeof(scalegemm_run_args) == 712);
FIELD_AT(scalegemm_pack_args, b, 8);
FIELD_AT(scalegemm_pack_args, scale_b, 80);
FIELD_AT(scalegemm_pack_args, zero_b, 152);
FIELD_AT(scalegemm_pack_args, global_b, 224);
static_assert(sizeof(scalegemm_pack_args) == 232);
FIELD_AT(scalegemm_quantizer_desc, operand, 8);
FIELD_AT(scalegemm_quantizer_desc, source_dtype, 48);
FIELD_AT(scalegemm_quantizer_desc, scale_rounding, 52);
static_assert(sizeof(scalegemm_quantizer_desc) == 56);
FIELD_AT(scalegemm_quantizer_args, src, 8);
FIELD_AT(scalegemm_quantizer_args, codes, 80);
FIELD_AT(scalegemm_quantizer_args, scales, 152);
FIELD_AT(scalegemm_quantizer_args, stream, 224);
static_assert(sizeof(scalegemm_quantizer_args) == 232);
FIELD_AT(scalegemm_plan_options, device, 8);
FIELD_AT(scalegemm_plan_options, kernel, 16);
FIELD_AT(scalegemm_plan_options, threads, 24);
static_assert(sizeof(scalegemm_plan_options) == 32);
FIELD_AT(scalegemm_runtime_options, threads, 8);
FIELD_AT(scalegemm_runtime_options, jit, 12);
FIELD_AT(scalegemm_runtime_options, cache_dir, 16);
FIELD_AT(scalegemm_runtime_options, tuned_table, 24);
FIELD_AT(scalegemm_runtime_options, strict, 32);
FIELD_AT(scalegemm_runtime_options, cpu_target, 40);
static_assert(sizeof(scalegemm_runtime_options) == 48);
FIELD_AT(scalegemm_support, supported, 8);
FIELD_AT(scalegemm_support, needs_compiler, 12);
FIELD_AT(scalegemm_support, workspace_bytes, 16);
FIELD_AT(scalegemm_support, kernel, 24);
FIELD_AT(scalegemm_support, reason, 280);
static_assert(sizeof(scalegemm_support) == 1304);
FIELD_AT(scalegemm_ceiling, unit, 8);
FIELD_AT(scalegemm_ceiling, value, 16);
FIELD_AT(scalegemm_ceiling, bytes, 24);
static_assert(sizeof(scalegemm_ceiling) == 32);
FIELD_AT(scalegemm_packed_info, layout, 8);
FIELD_AT(scalegemm_packed_info, n, 16);
FIELD_AT(scalegemm_packed_info, operand, 40);
FIELD_AT(scalegemm_packed_info, bytes, 80);
FIELD_AT(scalegemm_packed_info, digest, 88);
FIELD_AT(scalegemm_file_tensor, shape, 24);
FIELD_AT(scalegemm_file_tensor, data, 88);
FIELD_AT(scalegemm_file_tensor, fortran_order, 104);
static_assert(sizeof(scalegemm_file_tensor) == 112);
FIELD_AT(scalegemm_layer_info, name, 8);
FIELD_AT(scalegemm_layer_info, problem, 40);
FIELD_AT(scalegemm_layer_info, n, 48);
FIELD_AT(scalegemm_layer_info, bytes, 72);
FIELD_AT(scalegemm_layer_info, operand, 80);
FIELD_AT(scalegemm_weight_view, operand, 8);
FIELD_AT(scalegemm_weight_view, n, 8 + sizeof(scalegemm_operand_desc));
FIELD_AT(scalegemm_weight_view, codes, 24 + sizeof(scalegemm_operand_desc));
FIELD_AT(scalegemm_weight_view, global, 24 + sizeof(scalegemm_operand_desc) + 3 * sizeof(scalegemm_tensor));
FIELD_AT(scalegemm_weight_view, columns, 32 + sizeof(scalegemm_operand_desc) + 3 * sizeof(scalegemm_tensor));

namespace {

// What the library was compiled with equals what this program sees.
TEST(Abi, StructSizesAgree) {
  EXPECT_EQ(scalegemm_struct_size("problem"), sizeof(scalegemm_problem));
  EXPECT_EQ(scalegemm_struct_size("run_args"), sizeof(scalegemm_run_args));
  EXPECT_EQ(scalegemm_struct_size("pack_args"), sizeof(scalegemm_pack_args));
  EXPECT_EQ(scalegemm_struct_size("tensor"), sizeof(scalegemm_tensor));
  EXPECT_EQ(scalegemm_struct_size("operand_desc"), sizeof(scalegemm_operand_desc));
  EXPECT_EQ(scalegemm_struct_size("scale_desc"), sizeof(scalegemm_scale_desc));
  EXPECT_EQ(scalegemm_struct_size("runtime_options"), sizeof(scalegemm_runtime_options));
  EXPECT_EQ(scalegemm_struct_size("plan_options"), sizeof(scalegemm_plan_options));
  EXPECT_EQ(scalegemm_struct_size("support"), sizeof(scalegemm_support));
  EXPECT_EQ(scalegemm_struct_size("packed_info"), sizeof(scalegemm_packed_info));
  EXPECT_EQ(scalegemm_struct_size("device_info"), sizeof(scalegemm_device_info));
  EXPECT_EQ(scalegemm_struct_size("ceiling"), sizeof(scalegemm_ceiling));
  EXPECT_EQ(scalegemm_struct_size("cache_info"), sizeof(scalegemm_cache_info));
  EXPECT_EQ(scalegemm_struct_size("toolchain_info"), sizeof(scalegemm_toolchain_info));
  EXPECT_EQ(scalegemm_struct_size("kernel_info"), sizeof(scalegemm_kernel_info));
  EXPECT_EQ(scalegemm_struct_size("file_tensor"), sizeof(scalegemm_file_tensor));
  EXPECT_EQ(scalegemm_struct_size("layer_info"), sizeof(scalegemm_layer_info));
  EXPECT_EQ(scalegemm_struct_size("weight_view"), sizeof(scalegemm_weight_view));
  EXPECT_EQ(scalegemm_struct_size("quantize_options"), sizeof(scalegemm_quantize_options));
  EXPECT_EQ(scalegemm_struct_size("convert_options"), sizeof(scalegemm_convert_options));
  EXPECT_EQ(scalegemm_struct_size("converted"), sizeof(scalegemm_converted));
  EXPECT_EQ(scalegemm_struct_size("quantizer_desc"), sizeof(scalegemm_quantizer_desc));
  EXPECT_EQ(scalegemm_struct_size("quantizer_args"), sizeof(scalegemm_quantizer_args));
  EXPECT_EQ(scalegemm_struct_size("scheme_info"), sizeof(scalegemm_scheme_info));
  EXPECT_EQ(scalegemm_struct_size("no such structure"), 0u);
  EXPECT_EQ(scalegemm_struct_size(nullptr), 0u);
}

TEST(Abi, NamesOfTypesAndStatusesRoundTrip) {
  for (int32_t id = 1; id <= SCALEGEMM_INT32; ++id) {
    const char* name = scalegemm_dtype_name(id);
    ASSERT_NE(name, nullptr) << id;
    EXPECT_EQ(scalegemm_dtype_from_name(name), id);
  }
  EXPECT_EQ(scalegemm_dtype_name(0), nullptr);
  EXPECT_EQ(scalegemm_dtype_name(14), nullptr);
  EXPECT_EQ(scalegemm_dtype_name(-1), nullptr);
  EXPECT_EQ(scalegemm_dtype_from_name("fp8"), SCALEGEMM_DTYPE_NONE);
  EXPECT_EQ(scalegemm_dtype_from_name(nullptr), SCALEGEMM_DTYPE_NONE);
  EXPECT_STREQ(scalegemm_status_name(SCALEGEMM_NOT_BUILT), "not built");
  EXPECT_STREQ(scalegemm_status_name(static_cast<scalegemm_status>(15)), "unknown status");
}

TEST(Abi, CheckpointFunctionsRefuseWhatIsNotThere) {
  scalegemm_checkpoint* checkpoint = nullptr;
  scalegemm_weight* weight = nullptr;
  scalegemm_layer_info info{};
  scalegemm_weight_view view{};
  EXPECT_EQ(scalegemm_checkpoint_open(nullptr, &checkpoint), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_checkpoint_open("nothing.gguf", nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_checkpoint_open("nothing.gguf", &checkpoint), SCALEGEMM_IO_ERROR);
  EXPECT_EQ(checkpoint, nullptr);
  EXPECT_EQ(scalegemm_checkpoint_layer_count(nullptr), 0);
  EXPECT_EQ(scalegemm_checkpoint_layer(nullptr, 0, &info), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_checkpoint_left_out(nullptr, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_weight_read(nullptr, 0, 0, &weight), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_weight_describe(nullptr, &view), SCALEGEMM_INVALID_ARGUMENT);
  scalegemm_weight_destroy(nullptr);
  scalegemm_checkpoint_close(nullptr);

  const std::string path = testing::TempDir() + "abi_checkpoint.safetensors";
  const float values[4] = {1, 2, 3, 4};
  scalegemm_file_tensor tensor{};
  tensor.name = "w";
  tensor.dtype = SCALEGEMM_F32;
  tensor.rank = 2;
  tensor.shape[0] = tensor.shape[1] = 2;
  tensor.data = values;
  tensor.bytes = sizeof values;
  ASSERT_EQ(scalegemm_file_write(path.c_str(), &tensor, 1), SCALEGEMM_OK);
  ASSERT_EQ(scalegemm_checkpoint_open(path.c_str(), &checkpoint), SCALEGEMM_OK) << scalegemm_last_error();
  EXPECT_EQ(scalegemm_checkpoint_layer_count(checkpoint), 1);
  EXPECT_EQ(scalegemm_checkpoint_layer(checkpoint, 0, &info), SCALEGEMM_INVALID_ARGUMENT);  // struct_size 0
  info.struct_size = sizeof info;
  EXPECT_EQ(scalegemm_checkpoint_layer(checkpoint, 1, &info), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_checkpoint_layer(checkpoint, 0, &info), SCALEGEMM_OK);
  EXPECT_STREQ(info.scheme, "none:a=f32");
  for (const int64_t member : {-1, 1}) {
    EXPECT_EQ(scalegemm_weight_read(checkpoint, 0, member, &weight), SCALEGEMM_INVALID_ARGUMENT);
  }
  EXPECT_EQ(scalegemm_weight_read(checkpoint, -1, 0, &weight), SCALEGEMM_INVALID_ARGUMENT);
  ASSERT_EQ(scalegemm_weight_read(checkpoint, 0, 0, &weight), SCALEGEMM_OK);
  view.struct_size = sizeof view;
  ASSERT_EQ(scalegemm_weight_describe(weight, &view), SCALEGEMM_OK);
  EXPECT_EQ(static_cast<const float*>(view.codes.data)[3], 4);
  EXPECT_EQ(view.scales.data, nullptr);
  EXPECT_EQ(view.global, nullptr);
  EXPECT_EQ(view.columns, nullptr);
  scalegemm_weight_destroy(weight);

  const std::string output = testing::TempDir() + "abi_converted.safetensors";
  int32_t finished = 7;
  scalegemm_convert_options options{};
  const auto convert = [&](const char* to, const scalegemm_convert_options* how) {
    return scalegemm_checkpoint_convert(checkpoint, to, how, nullptr, nullptr, &finished);
  };
  EXPECT_EQ(scalegemm_checkpoint_convert(nullptr, output.c_str(), nullptr, nullptr, nullptr, &finished),
            SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_checkpoint_convert(checkpoint, output.c_str(), nullptr, nullptr, nullptr, nullptr),
            SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(convert(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(convert("", nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(convert(output.c_str(), &options), SCALEGEMM_INVALID_ARGUMENT);  // struct_size 0
  options.struct_size = sizeof options;
  options.ignore_count = 1;
  EXPECT_EQ(convert(output.c_str(), &options), SCALEGEMM_INVALID_ARGUMENT);
  options.ignore_count = 0;
  options.threads = -1;
  EXPECT_EQ(convert(output.c_str(), &options), SCALEGEMM_INVALID_ARGUMENT);
  options.threads = 1;
  options.scale_rounding = 3;
  EXPECT_EQ(convert(output.c_str(), &options), SCALEGEMM_INVALID_ARGUMENT);
  options.scale_rounding = 0;
  options.scheme = "rowcol";
  EXPECT_EQ(convert(path.c_str(), &options), SCALEGEMM_INVALID_ARGUMENT);  // in place of the input
  EXPECT_EQ(convert(output.c_str(), &options), SCALEGEMM_OK) << scalegemm_last_error();
  EXPECT_EQ(finished, 1);
  scalegemm_checkpoint_close(checkpoint);
  ASSERT_EQ(scalegemm_checkpoint_open(output.c_str(), &checkpoint), SCALEGEMM_OK) << scalegemm_last_error();
  EXPECT_EQ(scalegemm_checkpoint_layer_count(checkpoint), 1);
  scalegemm_checkpoint_close(checkpoint);
  std::remove(output.c_str());
  std::remove(path.c_str());
}

}  // namespace
