/* One program with two bundles of different kernels: each computes what it holds, and says what it lacks.
 * Compiled by bundle_test.cc against the folders that it has built. */
#include <acme/scalegemm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeta/scalegemm.h>

enum { M = 5, N = 33, K = 70 };

static float a_value(int m, int k) {
  return (float)((m * 7 + k * 3) % 9 - 4);
}
static float b_value(int n, int k) {
  return (float)((n * 5 + k) % 7 - 3);
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Small integers are exact in both types. */
static uint16_t bf16_of(float value) {
  return (uint16_t)(bits_of(value) >> 16);
}
static uint16_t f16_of(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t exponent = bits >> 23 & 255;
  return (uint16_t)((bits >> 16 & 0x8000) | (exponent == 0 ? 0 : (exponent - 112) << 10) |
                    (bits >> 13 & 1023));
}

#define FAIL(NS) (printf("%s: %s\n", #NS, NS##_last_error()), 1)

/* How many elements of D = A B^T are wrong. */
#define DEFINE_RUN(NS, UPPER, TYPE, ENCODE)                                        \
  static int NS##_gemm(const char* scheme) {                                       \
    static uint16_t a[M * K], b[N * K];                                            \
    static float d[M * N];                                                         \
    int wrong = 0, m, n, k;                                                        \
    NS##_runtime_options options = {sizeof options};                               \
    NS##_plan_options plan_options = {sizeof plan_options};                        \
    NS##_problem problem = {sizeof problem};                                       \
    NS##_run_args args = {sizeof args};                                            \
    NS##_runtime* runtime = NULL;                                                  \
    NS##_plan* plan = NULL;                                                        \
    for (m = 0; m < M; ++m)                                                        \
      for (k = 0; k < K; ++k)                                                      \
        a[m * K + k] = ENCODE(a_value(m, k));                                      \
    for (n = 0; n < N; ++n)                                                        \
      for (k = 0; k < K; ++k)                                                      \
        b[n * K + k] = ENCODE(b_value(n, k));                                      \
    options.threads = 2;                                                           \
    if (NS##_runtime_create(&options, &runtime) != UPPER##_OK)                     \
      return FAIL(NS);                                                             \
    if (NS##_problem_init(&problem, scheme, "rcr", M, N, K) != UPPER##_OK)         \
      return FAIL(NS);                                                             \
    if (NS##_plan_create(runtime, &problem, &plan_options, &plan) != UPPER##_OK) { \
      const int failed = FAIL(NS);                                                 \
      NS##_runtime_destroy(runtime);                                               \
      return failed;                                                               \
    }                                                                              \
    NS##_run_args_init(&args);                                                     \
    args.workspace_bytes = NS##_plan_workspace_bytes(plan);                        \
    args.workspace = aligned_alloc(64, (args.workspace_bytes + 64) / 64 * 64);     \
    args.a = NS##_matrix(a, TYPE, M, K);                                           \
    args.b = NS##_matrix(b, TYPE, N, K);                                           \
    args.d = NS##_matrix(d, UPPER##_F32, M, N);                                    \
    if (NS##_run(plan, &args) != UPPER##_OK)                                       \
      return FAIL(NS);                                                             \
    for (m = 0; m < M; ++m)                                                        \
      for (n = 0; n < N; ++n) {                                                    \
        float sum = 0;                                                             \
        for (k = 0; k < K; ++k)                                                    \
          sum += a_value(m, k) * b_value(n, k);                                    \
        wrong += d[m * N + n] != sum;                                              \
      }                                                                            \
    printf("%s: %d wrong with %s\n", #NS, wrong, NS##_plan_kernel(plan));          \
    free(args.workspace);                                                          \
    NS##_plan_destroy(plan);                                                       \
    NS##_runtime_destroy(runtime);                                                 \
    return wrong;                                                                  \
  }

DEFINE_RUN(acme, ACME, ACME_BF16, bf16_of)
DEFINE_RUN(zeta, ZETA, ZETA_F16, f16_of)

int main(void) {
  const int wrong = acme_gemm("none:a=bf16") + zeta_gemm("none:a=f16");
  /* What is not in the manifest is refused, not compiled. */
  const int refused = acme_gemm("none:a=f16") != 0 && zeta_gemm("none:a=bf16") != 0;
  return wrong == 0 && refused ? 0 : 1;
}
