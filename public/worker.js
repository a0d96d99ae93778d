// The page posts the address of the main script and its compiled WebAssembly; both halves of the
// program are the same file, so nothing is downloaded twice.

// A file that a run needs and the program does not carry. The run waits for it, and this thread with it.
globalThis.fileOf = (name) => {
  const request = new XMLHttpRequest();
  request.open('GET', name, false);
  request.responseType = 'arraybuffer';
  try {
    request.send();
  } catch {
    return undefined;
  }
  return request.status === 200 ? new Uint8Array(request.response) : undefined;
};

// The kind of a recorded run; nothing for what is none, as far as its beginning tells: a pickle is a memory
// snapshot, JSON with events a profiler's trace.
globalThis.recordedKind = async (input) => {
  const head = await beginning(input);
  if (head[0] === 0x80 && head[1] >= 2 && head[1] <= 5) return 'recorded';
  const text = new TextDecoder().decode(head).trimStart();
  if (text[0] === '{' && /"(traceEvents|schemaVersion)"/.test(text)) return 'profiled';
};

// The first bytes of an input, or of what gzip packed in it.
async function beginning(input) {
  const head = new Response(input.slice(0, 1 << 16));
  const packed = new Uint8Array(await head.clone().arrayBuffer());
  if (packed[0] !== 0x1f || packed[1] !== 0x8b) return packed;
  const unpacked = head.body.pipeThrough(new DecompressionStream('gzip')).getReader();
  // What ends in the middle is an error, but not with its first chunk.
  const { value } = await unpacked.read().catch(() => ({}));
  return value ?? packed;
}

onmessage = async ({ data: { main, module } }) => {
  onmessage = null;
  const { default: start } = await import(main);
  await start({ module_or_path: module });
};
