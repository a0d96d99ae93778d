// cuBLAS and cuBLASLt: handles, and products that do nothing. PyTorch itself decides how large a
// workspace it gives them, from the device's capability.
#include "fake.h"

enum { SUCCESS = 0, VERSION = 130401 };

EXPORT int cublasCreate_v2(void **library) {
  *library = handle();
  return SUCCESS;
}
EXPORT int cublasGetVersion_v2(void *library, int *version) {
  *version = VERSION;
  return SUCCESS;
}
EXPORT int cublasGetMathMode(void *library, int *mode) {
  *mode = 0;
  return SUCCESS;
}
EXPORT int cublasGetPointerMode_v2(void *library, int *mode) {
  *mode = 0;
  return SUCCESS;
}
EXPORT int cublasGetStream_v2(void *library, void **stream) {
  *stream = NULL;
  return SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void) { return VERSION; }
EXPORT int cublasLtCreate(void **library) {
  *library = handle();
  return SUCCESS;
}
EXPORT int cublasLtMatmulDescCreate(void **description, int compute, int scale) {
  *description = handle();
  return SUCCESS;
}
EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
  *layout = handle();
  return SUCCESS;
}
EXPORT int cublasLtMatmulPreferenceCreate(void **preference) {
  *preference = handle();
  return SUCCESS;
}
EXPORT int cublasLtMatmulDescDestroy(void *description) {
  free(description);
  return SUCCESS;
}
EXPORT int cublasLtMatrixLayoutDestroy(void *layout) {
  free(layout);
  return SUCCESS;
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *preference) {
  free(preference);
  return SUCCESS;
}

// One algorithm without a workspace: all-zero `cublasLtMatmulHeuristicResult_t` of 96 bytes.
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *library, void *operation, void *a, void *b, void *c,
                                          void *d, void *preference, int wanted, void *results,
                                          int *found) {
  memset(results, 0, 96);
  *found = 1;
  return SUCCESS;
}
