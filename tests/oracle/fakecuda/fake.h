// What the parts of the fake device share.
//
//   memory.c   device memory: addresses without anything behind them
//   runtime.c  the device's properties, streams, events, kernels that do not run
//   blas.c     cuBLAS and cuBLASLt: handles, and one algorithm that needs no workspace of its own
//   dnn.c      cuDNN: descriptors, and the convolution workspaces of a table
//   rnn.c      cuDNN: recurrent layers
//   driver.c   what Triton asks of the driver
//   stubs.py   every other function that PyTorch's libraries import: it succeeds and does nothing
//
// Environment, all numbers (oracle's place.py derives them from devices/*.json):
//   FAKECUDA_MEMORY      bytes of the device
//   FAKECUDA_CAPABILITY  compute capability times ten
//   FAKECUDA_PROCESSORS  multiprocessors
//   FAKECUDA_THREADS     threads of one multiprocessor
//   FAKECUDA_BLOCKS      blocks of one multiprocessor
//   FAKECUDA_SHARED      bytes of shared memory of one multiprocessor
//   FAKECUDA_TRACE       1: tell of device memory on stderr; 2: of stubs as well
#pragma once
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// PyTorch's libraries find these before those of the real libraries, because the file is preloaded.
#define EXPORT __attribute__((visibility("default")))

// A number of the environment, or what stands for it.
static inline size_t setting(const char *name, size_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

// Something whose address tells it from others: a stream, an event, a library's handle.
static inline void *handle(void) { return calloc(1, 64); }

// COUNT of what happened, for the recorder to ask after the run.
struct counts {
  size_t launches;    // kernels
  size_t bools_read;  // one-byte copies to the host, answered 1
  size_t others_read; // other copies to the host, answered with zeros
  size_t unknown;     // convolutions that the table of workspaces lacks
};
extern struct counts counts;
