// cuDNN by its older interface (v7), which PyTorch takes with TORCH_CUDNN_V8_API_DISABLED=1: easy
// to stand in for, and like the newer one it takes the output, then one workspace for each call.
//
// Workspaces are those of FAKECUDA_WORKSPACES, lines of `CALL BYTES`, which truth/cudnn.py fills
// with the real cuDNN's answers. A call that is not there takes none and is written to
// FAKECUDA_UNKNOWN, so that the recorder can ask and run again.
#include "fake.h"

#include <cuda_runtime_api.h>

enum { SUCCESS = 0, RANK_MAX = 8 };

// Every kind of descriptor; only what convolutions need is kept.
struct descriptor {
  int dtype, rank;
  int sizes[RANK_MAX], strides[RANK_MAX];             // a tensor, a filter
  int padding[RANK_MAX], step[RANK_MAX], dilation[RANK_MAX]; // a convolution
};

EXPORT size_t cudnnGetVersion(void) { return CUDNN_V; }
EXPORT size_t cudnnGetCudartVersion(void) { return CUDART_VERSION; }
EXPORT int cudnnGetProperty(int which, int *value) {
  int parts[] = {CUDNN_V / 10000, CUDNN_V / 100 % 100, CUDNN_V % 100};
  *value = parts[which < 3 ? which : 2];
  return SUCCESS;
}
EXPORT const char *cudnnGetErrorString(int error) {
  return error ? "an error of the fake cuDNN" : "CUDNN_STATUS_SUCCESS";
}
EXPORT void cudnnGetLastErrorString(char *text, size_t size) {
  if (size) text[0] = 0;
}
EXPORT int cudnnCreate(void **library) {
  *library = handle();
  return SUCCESS;
}
EXPORT int cudnnGetStream(void *library, void **stream) {
  *stream = NULL;
  return SUCCESS;
}

#define DESCRIPTOR(kind)                                                                           \
  EXPORT int cudnnCreate##kind##Descriptor(void **made) {                                          \
    *made = calloc(1, sizeof(struct descriptor));                                                  \
    return SUCCESS;                                                                                \
  }                                                                                                \
  EXPORT int cudnnDestroy##kind##Descriptor(void *made) {                                          \
    free(made);                                                                                    \
    return SUCCESS;                                                                                \
  }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Activation)
DESCRIPTOR(Dropout)
DESCRIPTOR(Pooling)
DESCRIPTOR(CTCLoss)
DESCRIPTOR(SpatialTransformer)

static void copy(int *to, const int *from, int rank) {
  memcpy(to, from, sizeof(int) * (rank < RANK_MAX ? rank : RANK_MAX));
}

EXPORT int cudnnSetTensorNdDescriptor(struct descriptor *d, int dtype, int rank, const int *sizes,
                                      const int *strides) {
  d->dtype = dtype;
  d->rank = rank;
  copy(d->sizes, sizes, rank);
  copy(d->strides, strides, rank);
  return SUCCESS;
}

// Filters come with an order instead of strides: 0 is KCRS, else channels are innermost.
EXPORT int cudnnSetFilterNdDescriptor(struct descriptor *d, int dtype, int order, int rank,
                                      const int *sizes) {
  d->dtype = dtype;
  d->rank = rank;
  copy(d->sizes, sizes, rank);
  int step = 1;
  if (order != 0) {
    d->strides[1] = 1;
    step = sizes[1];
  }
  for (int i = rank - 1; i >= (order == 0 ? 1 : 2); i--) {
    d->strides[i] = step;
    step *= sizes[i];
  }
  d->strides[0] = step;
  return SUCCESS;
}

EXPORT int cudnnSetConvolutionNdDescriptor(struct descriptor *d, int rank, const int *padding,
                                           const int *step, const int *dilation, int mode,
                                           int dtype) {
  d->rank = rank;
  copy(d->padding, padding, rank);
  copy(d->step, step, rank);
  copy(d->dilation, dilation, rank);
  return SUCCESS;
}

struct known {
  char *call;
  size_t bytes;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *table;
static size_t table_length;
static int table_is_read;

static int by_call(const void *a, const void *b) {
  return strcmp(((const struct known *)a)->call, ((const struct known *)b)->call);
}

static void read_table(void) {
  table_is_read = 1;
  const char *name = getenv("FAKECUDA_WORKSPACES");
  FILE *file = name ? fopen(name, "r") : NULL;
  if (!file) return;
  char call[1024];
  size_t bytes;
  while (fscanf(file, "%1023s %zu%*[^\n]", call, &bytes) == 2) {
    table = realloc(table, (table_length + 1) * sizeof *table);
    table[table_length++] = (struct known){strdup(call), bytes};
  }
  fclose(file);
  qsort(table, table_length, sizeof *table, by_call);
}

// `|1x2x3`: a list of the call's name.
static char *append(char *end, const int *values, int rank) {
  for (int i = 0; i < rank; i++) end += sprintf(end, i ? "x%d" : "|%d", values[i]);
  return end;
}

static void tell_unknown(const char *call) {
  counts.unknown++;
  const char *name = getenv("FAKECUDA_UNKNOWN");
  FILE *file = name ? fopen(name, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s\n", call);
  fclose(file);
}

static size_t workspace(const char *direction, const struct descriptor *x,
                        const struct descriptor *w, const struct descriptor *y,
                        const struct descriptor *c) {
  char call[1024];
  char *end = call + sprintf(call, "%s|%d", direction, x->dtype);
  const struct descriptor *tensors[] = {x, w, y};
  for (int i = 0; i < 3; i++) {
    end = append(end, tensors[i]->sizes, tensors[i]->rank);
    end = append(end, tensors[i]->strides, tensors[i]->rank);
  }
  end = append(end, c->padding, c->rank);
  end = append(end, c->step, c->rank);
  append(end, c->dilation, c->rank);

  pthread_mutex_lock(&lock);
  if (!table_is_read) read_table();
  struct known wanted = {call, 0};
  struct known *found = bsearch(&wanted, table, table_length, sizeof *table, by_call);
  if (!found) tell_unknown(call);
  size_t bytes = found ? found->bytes : 0;
  pthread_mutex_unlock(&lock);
  return bytes;
}

// The performance structures of the three directions have one layout.
struct performance {
  int algorithm, status;
  float time;
  size_t memory;
  int deterministic, math, reserved[3];
};

static int answer(int *count, struct performance *p, size_t bytes) {
  *p = (struct performance){.algorithm = 1, .time = 1, .memory = bytes, .deterministic = 1};
  *count = 1;
  return SUCCESS;
}

#define D struct descriptor *
EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void *library, D x, D w, D c, D y, int wanted,
                                                  int *count, void *p) {
  return answer(count, p, workspace("fwd", x, w, y, c));
}
EXPORT int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *library, D w, D dy, D c, D dx,
                                                       int wanted, int *count, void *p) {
  return answer(count, p, workspace("dgrad", dx, w, dy, c));
}
EXPORT int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *library, D x, D dy, D c, D dw,
                                                         int wanted, int *count, void *p) {
  return answer(count, p, workspace("wgrad", x, dw, dy, c));
}
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *library, D x, D w, D c, D y, int algorithm,
                                                   size_t *bytes) {
  *bytes = workspace("fwd", x, w, y, c);
  return SUCCESS;
}
EXPORT int cudnnGetConvolutionBackwardDataWorkspaceSize(void *library, D w, D dy, D c, D dx,
                                                        int algorithm, size_t *bytes) {
  *bytes = workspace("dgrad", dx, w, dy, c);
  return SUCCESS;
}
EXPORT int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *library, D x, D dy, D c, D dw,
                                                          int algorithm, size_t *bytes) {
  *bytes = workspace("wgrad", x, dw, dy, c);
  return SUCCESS;
}

// Batch normalization takes nothing beside its tensors: true of the kernels for NCHW; those for
// channels-last were never asked.
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *library, int mode, int op,
                                                                    D x, D z, D y, D b, D a,
                                                                    size_t *bytes) {
  *bytes = 0;
  return SUCCESS;
}
EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *library, int mode, int op, D x,
                                                             D y, D dy, D dz, D dx, D b, D a,
                                                             size_t *bytes) {
  *bytes = 0;
  return SUCCESS;
}
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *library, int mode, int op,
                                                                D a, D x, size_t *bytes) {
  *bytes = 0;
  return SUCCESS;
}
EXPORT int cudnnDropoutGetStatesSize(void *library, size_t *bytes) {
  // "Slightly over 2 MB" (ATen/native/cudnn/RNN.cpp); the real size depends on the card.
  *bytes = (2 << 20) + (64 << 10);
  return SUCCESS;
}
