/* A whole use of the library in C89: quantise, pack, plan, run, check; a quantizer of activations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scalegemm/scalegemm.h"

#define M 3
#define N 40
#define K 96

static int check(scalegemm_status status, const char* what) {
  if (status != SCALEGEMM_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, scalegemm_status_name(status), scalegemm_last_error());
    exit(1);
  }
  return 0;
}

static float weight(int n, int k) {
  return (float)((n * 7 + k * 3) % 13 - 6) * 0.25f;
}

/* Rows of e4m3 with a scale each: the largest element of a row becomes 448, code 0x7e. */
static void quantize_rows(scalegemm_runtime* runtime, float* a) {
  static unsigned char codes[M * K];
  static float scales[M];
  scalegemm_quantizer* quantizer = NULL;
  scalegemm_quantizer_desc desc;
  scalegemm_quantizer_args args;
  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.operand.dtype = SCALEGEMM_E4M3;
  desc.operand.scale.dtype = SCALEGEMM_F32;
  desc.operand.scale.block_rows = 1;
  desc.source_dtype = SCALEGEMM_F32;
  check(scalegemm_quantizer_create(runtime, &desc, NULL, &quantizer), "quantizer_create");
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.src = scalegemm_matrix(a, SCALEGEMM_F32, M, K);
  args.codes = scalegemm_matrix(codes, SCALEGEMM_E4M3, M, K);
  args.scales = scalegemm_matrix(scales, SCALEGEMM_F32, M, 1);
  check(scalegemm_quantizer_run(quantizer, &args), "quantizer_run");
  scalegemm_quantizer_destroy(quantizer);
  if (scales[0] != 5.0f / 448.0f || codes[10] != 0x7e || codes[0] != 0xfe) {
    fprintf(stderr, "quantizer: scale %g, codes %d and %d\n", scales[0], codes[10], codes[0]);
    exit(1);
  }
}

int main(void) {
  static float a[M * K], w[N * K], back[N * K], d[M * N];
  static unsigned char codes[N * K / 2];
  static float scales[N * (K / 32)];
  scalegemm_runtime* runtime = NULL;
  scalegemm_packed* packed = NULL;
  scalegemm_plan* plan = NULL;
  scalegemm_problem problem;
  scalegemm_pack_args pack;
  scalegemm_run_args run;
  scalegemm_tensor src, code_t, scale_t, back_t, none;
  char* memory;
  int i, m, n, k;

  memset(&none, 0, sizeof none);
  for (i = 0; i < M * K; ++i)
    a[i] = (float)(i % 11 - 5);
  for (n = 0; n < N; ++n) {
    for (k = 0; k < K; ++k)
      w[n * K + k] = weight(n, k);
  }
  check(scalegemm_runtime_create(NULL, &runtime), "runtime_create");
  memset(&problem, 0, sizeof problem);
  problem.struct_size = sizeof problem;
  check(scalegemm_problem_init(&problem, "bquant:a=f32,b=int4,g=32", "rcr", M, N, K), "problem_init");
  problem.b_packing = SCALEGEMM_PACKED;

  src = scalegemm_matrix(w, SCALEGEMM_F32, N, K);
  code_t = scalegemm_matrix(codes, SCALEGEMM_INT4, N, K);
  scale_t = scalegemm_matrix(scales, SCALEGEMM_F32, N, K / 32);
  back_t = scalegemm_matrix(back, SCALEGEMM_F32, N, K);
  check(scalegemm_quantize(&problem.b, &src, NULL, &code_t, &scale_t, &none, NULL), "quantize");
  check(scalegemm_dequantize(&problem.b, &code_t, &scale_t, &none, NULL, &back_t), "dequantize");

  memset(&pack, 0, sizeof pack);
  pack.struct_size = sizeof pack;
  pack.b = code_t;
  pack.scale_b = scale_t;
  check(scalegemm_pack(runtime, &problem, NULL, &pack, &packed), "pack");
  check(scalegemm_plan_create(runtime, &problem, NULL, &plan), "plan_create");

  memset(&run, 0, sizeof run);
  run.struct_size = sizeof run;
  check(scalegemm_run_args_init(&run), "run_args_init");
  run.a = scalegemm_matrix(a, SCALEGEMM_F32, M, K);
  run.packed_b = packed;
  run.d = scalegemm_matrix(d, SCALEGEMM_F32, M, N);
  run.workspace_bytes = scalegemm_plan_workspace_bytes(plan);
  memory = (char*)malloc(run.workspace_bytes + 64);
  run.workspace = memory + (64 - (size_t)memory % 64);
  check(scalegemm_run(plan, &run), "run");

  for (m = 0; m < M; ++m) {
    for (n = 0; n < N; ++n) {
      double sum = 0, scale = 0;
      for (k = 0; k < K; ++k) {
        sum += (double)a[m * K + k] * back[n * K + k];
        scale += fabs((double)a[m * K + k] * back[n * K + k]);
      }
      if (!(fabs(d[m * N + n] - sum) <= scale * K * 1.2e-7)) {
        fprintf(stderr, "d[%d,%d] = %g, expected %g\n", m, n, d[m * N + n], sum);
        return 1;
      }
    }
  }
  quantize_rows(runtime, a);
  free(memory);
  scalegemm_plan_destroy(plan);
  scalegemm_packed_destroy(packed);
  scalegemm_runtime_destroy(runtime);
  printf("scalegemm %s from C89: ok\n", scalegemm_version());
  return 0;
}
