/* Multiplies with a bundle on the CPU: consumer SCHEME. Exit code 0 when D is right, 2 with the reason when
 * the bundle has no kernel for it. */
#include <acme/scalegemm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 3, N = 5, K = 40 };

static uint16_t bf16_of(int value) {
  const float x = (float)value;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static int give_up(const char* what) {
  printf("%s: %s\n", what, acme_last_error());
  return 1;
}

int main(int argc, char** argv) {
  static uint16_t a[M * K], b[N * K];
  static float d[M * N];
  int i, m, n, k;
  acme_problem problem = {sizeof problem};
  acme_support support = {sizeof support};
  acme_run_args args = {sizeof args};
  acme_runtime_options options = {sizeof options};
  acme_runtime* runtime = NULL;
  acme_plan* plan = NULL;
  const char* scheme = argc > 1 ? argv[1] : "none:a=bf16";
  if (acme_runtime_create(&options, &runtime) != ACME_OK)
    return give_up("runtime");
  if (acme_problem_init(&problem, scheme, "rcr", M, N, K) != ACME_OK)
    return give_up("problem");
  if (acme_query(runtime, &problem, NULL, &support) != ACME_OK)
    return give_up("query");
  if (!support.supported) {
    printf("not supported: %s\n", support.reason);
    acme_runtime_destroy(runtime);
    return 2;
  }
  for (i = 0; i < M * K; ++i)
    a[i] = bf16_of(i % 7 - 3);
  for (i = 0; i < N * K; ++i)
    b[i] = bf16_of(i % 5 - 2);
  if (acme_plan_create(runtime, &problem, NULL, &plan) != ACME_OK)
    return give_up("plan");
  acme_run_args_init(&args);
  args.a = acme_matrix(a, ACME_BF16, M, K);
  args.b = acme_matrix(b, ACME_BF16, N, K);
  args.d = acme_matrix(d, ACME_F32, M, N);
  args.workspace_bytes = acme_plan_workspace_bytes(plan);
  args.workspace = aligned_alloc(64, (args.workspace_bytes + 64) / 64 * 64);
  if (acme_run(plan, &args) != ACME_OK)
    return give_up("run");
  for (m = 0; m < M; ++m) {
    for (n = 0; n < N; ++n) {
      int sum = 0;
      for (k = 0; k < K; ++k)
        sum += ((m * K + k) % 7 - 3) * ((n * K + k) % 5 - 2);
      if (d[m * N + n] != (float)sum) {
        printf("D[%d, %d]: needed %d, is %g\n", m, n, sum, d[m * N + n]);
        return 1;
      }
    }
  }
  printf("right with %s\n", acme_plan_kernel(plan));
  free(args.workspace);
  acme_plan_destroy(plan);
  acme_runtime_destroy(runtime);
  return 0;
}
