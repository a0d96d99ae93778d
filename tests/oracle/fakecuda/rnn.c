// Recurrent layers of cuDNN: where weights lie in their buffer, and what a call asks for beside its
// tensors. Scratch and reserve are the sums in core/engine/src/aten/recurrent.rs, which the real cuDNN
// gives without a device (../recurrent.py), for its standard algorithm.
#include "fake.h"

enum { SUCCESS = 0, FLOAT32 = 0, LSTM = 2, GRU = 3, REMEMBERED = 64 };

struct rnn {
  int cell, directions, dtype, width, hidden, layers; // a module
  int time, batch;                                    // a sequence
};

#define DESCRIPTOR(kind)                                                                           \
  EXPORT int cudnnCreate##kind##Descriptor(void **made) {                                          \
    *made = calloc(1, sizeof(struct rnn));                                                         \
    return SUCCESS;                                                                                \
  }                                                                                                \
  EXPORT int cudnnDestroy##kind##Descriptor(void *made) {                                          \
    free(made);                                                                                    \
    return SUCCESS;                                                                                \
  }
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)

EXPORT int cudnnSetRNNDescriptor_v8(struct rnn *r, int algorithm, int cell, int bias, int direction,
                                    int input_mode, int dtype, int precision, int math, int width,
                                    int hidden, int projection, int layers, void *dropout,
                                    unsigned flags) {
  *r = (struct rnn){cell, direction + 1, dtype, width, hidden, layers, 0, 0};
  return SUCCESS;
}

EXPORT int cudnnSetRNNDataDescriptor(struct rnn *x, int dtype, int layout, int time, int batch,
                                     int width, const int *lengths, void *padding) {
  x->time = time;
  x->batch = batch;
  return SUCCESS;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t gates(const struct rnn *r) { return r->cell == LSTM ? 4 : r->cell == GRU ? 3 : 1; }
static size_t element(const struct rnn *r) { return r->dtype == FLOAT32 ? 4 : 2; }

// Elements of the matrices of so many pseudo-layers: directions lie inside layers.
static size_t matrices(const struct rnn *r, int count) {
  size_t sum = 0;
  for (int i = 0; i < count; i++) {
    size_t width = i < r->directions ? r->width : r->directions * r->hidden;
    sum += gates(r) * r->hidden * (width + r->hidden);
  }
  return sum;
}

EXPORT int cudnnGetRNNWeightSpaceSize(void *library, struct rnn *r, size_t *bytes) {
  int count = r->layers * r->directions;
  *bytes = (matrices(r, count) + 2 * count * gates(r) * r->hidden) * element(r);
  return SUCCESS;
}

// What the last descriptors of weights were told, for PyTorch to read at once.
static struct {
  void *tensor;
  int dtype, rows, columns;
} told[REMEMBERED];
static unsigned told_count;

static void tell(void *tensor, int dtype, int rows, int columns) {
  unsigned i = told_count++ % REMEMBERED;
  told[i].tensor = tensor;
  told[i].dtype = dtype;
  told[i].rows = rows;
  told[i].columns = columns;
}

EXPORT int cudnnGetTensorNdDescriptor(void *tensor, int wanted, int *dtype, int *rank, int *sizes,
                                      int *strides) {
  for (unsigned back = 1; back <= told_count && back <= REMEMBERED; back++) {
    unsigned i = (told_count - back) % REMEMBERED;
    if (told[i].tensor != tensor) continue;
    *dtype = told[i].dtype;
    *rank = 3;
    sizes[0] = 1;
    sizes[1] = told[i].rows;
    sizes[2] = told[i].columns;
    strides[0] = told[i].rows * told[i].columns;
    strides[1] = told[i].columns;
    strides[2] = 1;
    return SUCCESS;
  }
  return 1;
}

// Matrices of all pseudo-layers lie before all biases.
EXPORT int cudnnGetRNNWeightParams(void *library, struct rnn *r, int layer, size_t bytes,
                                   char *weights, int gate, void *matrix, void **matrix_at,
                                   void *bias, void **bias_at) {
  size_t g = gates(r), hidden = r->hidden;
  size_t width = layer < r->directions ? r->width : r->directions * hidden;
  if (matrix) {
    size_t columns = (size_t)gate < g ? width : hidden;
    size_t inside = (size_t)gate < g ? gate * hidden * width
                                     : g * hidden * width + (gate - g) * hidden * hidden;
    tell(matrix, r->dtype, hidden, columns);
    *matrix_at = weights + (matrices(r, layer) + inside) * element(r);
  }
  if (bias) {
    size_t before = matrices(r, r->layers * r->directions) + 2 * layer * g * hidden;
    tell(bias, r->dtype, hidden, 1);
    *bias_at = weights + (before + gate * hidden) * element(r);
  }
  return SUCCESS;
}

EXPORT int cudnnGetRNNTempSpaceSizes(void *library, struct rnn *r, int mode, struct rnn *x,
                                     size_t *scratch, size_t *reserve) {
  size_t time = x->time, hidden = r->hidden, layers = r->layers, directions = r->directions;
  size_t widest = larger(r->width, hidden), by_gate, by_width;
  int is_lstm = r->cell == LSTM, is_gru = r->cell == GRU;
  if (directions == 1) {
    size_t more = is_lstm ? 3 : 1, chunk = time < 256 ? time : 256;
    by_gate = gates(r) * chunk * hidden + (is_lstm ? 6 : is_gru ? 3 : 1) * layers * hidden;
    by_width = time * widest + (layers == 1 ? time * hidden + more * hidden
                                            : ((time < 8 ? time : 8) + (4 + more) * layers) * hidden);
  } else {
    size_t rows = layers == 1 ? 2 : 4;
    by_gate = (2 * gates(r) + 4) * time * hidden + (is_lstm ? 16 : is_gru ? 10 : 4) * layers * hidden;
    by_width = 4 * time * widest + rows * time * hidden + (is_lstm ? 10 : 6) * layers * hidden;
  }
  size_t weights = (matrices(r, layers * directions) * element(r) + 255) / 256 * 256;
  if (scratch)
    *scratch = (layers * directions << 23) + weights +
               larger(by_gate, by_width) * x->batch * element(r) + 256;
  if (reserve)
    *reserve = time * x->batch * hidden * element(r) * directions *
                   ((is_lstm ? 5 : is_gru ? 6 : 1) * layers + layers - 1) +
               256;
  return SUCCESS;
}
